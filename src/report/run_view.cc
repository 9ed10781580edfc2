#include "report/run_view.h"

#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/file.h"
#include "base/json_text.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

std::vector<double> known(const std::vector<double>& values) {
  std::vector<double> some;
  std::copy_if(values.begin(), values.end(), std::back_inserter(some),
               [](double value) { return !std::isnan(value); });
  return some;
}

// Half-way between the two middle ones of an even number of values.
double median(const std::vector<double>& values) {
  std::vector<double> sorted = known(values);
  if (sorted.empty()) return kNone;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t n = sorted.size();
  return n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

double sum(const std::vector<double>& values) {
  double total = 0;
  for (const double value : known(values)) total += value;
  return total;
}

double mean(const std::vector<double>& values) {
  const std::vector<double> some = known(values);
  return some.empty() ? kNone : sum(some) / static_cast<double>(some.size());
}

double largest(const std::vector<double>& values) {
  const std::vector<double> some = known(values);
  return some.empty() ? kNone : *std::max_element(some.begin(), some.end());
}

double first(const std::vector<double>& values) {
  const std::vector<double> some = known(values);
  return some.empty() ? kNone : some.front();
}

double last(const std::vector<double>& values) {
  const std::vector<double> some = known(values);
  return some.empty() ? kNone : some.back();
}

void read_config(RunView& run) {
  const fs::path path = run.folder / "config.toml";
  if (!fs::exists(path)) {
    run.notes.push_back("The folder has no config.toml: strategy and ranks are not known.");
    return;
  }
  run.config = read_text_file(path);
  try {
    const toml::table config = toml::parse(run.config);
    run.strategy = config["plan"]["strategy"].value_or(std::string());
    run.ranks = config["train"]["ranks"].value<std::int64_t>();
    run.capacity = config["plan"]["capacity"].value<std::int64_t>();
  } catch (const toml::parse_error& error) {
    throw_user_error("{}: not TOML: {}", path.string(), std::string(error.description()));
  }
}

std::vector<fs::path> files_of_plans(const fs::path& folder) {
  std::vector<fs::path> files;
  if (!fs::is_directory(folder)) return files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".plan") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::size_t> shown_steps(std::size_t count) {
  const std::size_t stride =
      std::max<std::size_t>(1, (count + kMostCurvePoints - 1) / kMostCurvePoints);
  std::vector<std::size_t> shown;
  for (std::size_t i = 0; i < count; i += stride) shown.push_back(i);
  if (!shown.empty() && shown.back() != count - 1) shown.push_back(count - 1);
  return shown;
}

std::string column_json(const std::vector<double>& values, const std::vector<std::size_t>& shown) {
  std::string text = "[";
  for (const std::size_t i : shown) {
    if (text.size() > 1) text += ',';
    text += json_number(values[i]);
  }
  return text + "]";
}

std::string optional_json(const std::optional<std::int64_t>& value) {
  return value ? std::to_string(*value) : "null";
}

}  // namespace

RunView read_run(const fs::path& folder) {
  RunView run;
  run.folder = folder;
  run.name = folder.filename().string();
  WEFT_USER_CHECK(fs::exists(folder / "metrics.jsonl"),
                  "report: '{}' holds no metrics.jsonl; name the folder of a run (train.out), or a "
                  "plan with --plan",
                  folder.string());
  run.metrics = read_metrics(folder / "metrics.jsonl");
  if (run.metrics.is_cut) {
    run.notes.push_back(
        "The last line of metrics.jsonl has no end (the run goes on, or was killed while writing "
        "it); it is left out.");
  }
  const std::size_t num_shown = shown_steps(run.metrics.steps.size()).size();
  if (num_shown < run.metrics.steps.size()) {
    run.notes.push_back(fmt::format(
        "Curves hold {} of {} steps, evenly spread; all other figures come from every step.",
        num_shown, run.metrics.steps.size()));
  }
  read_config(run);
  run.plan_files = files_of_plans(folder / "plans");
  return run;
}

std::vector<std::pair<std::string, double>> summarize(const MetricsTable& metrics) {
  const auto of = [&](std::string_view key) -> const std::vector<double>& {
    return metrics.column(key);
  };
  std::vector<std::pair<std::string, double>> summary{
      {"steps", static_cast<double>(metrics.steps.size())},
      {"tokens_total", sum(of("tokens"))},
      {"time_total_s", sum(of("step_s"))},
      {"loss_first", first(of("loss"))},
      {"loss_last", last(of("loss"))},
      {"tokens_per_s_median", median(of("tokens_per_s"))},
      {"step_s_median", median(of("step_s"))},
      {"predicted_s_median", median(of("predicted_s"))},
      {"mfu_median", median(of("mfu"))},
      {"imbalance_median", median(of("imbalance"))},
      {"gap_median", median(of("gap"))},
      {"exchange_bytes_mean", mean(of("exchange_bytes"))},
      {"peak_bytes_max", largest(of("peak_bytes"))},
      {"sharded_mean", mean(of("sharded_sequences"))},
      {"max_degree", largest(of("max_degree"))},
      {"skipped_steps", last(of("skipped_steps"))},
      {"dropped_sequences", last(of("dropped_sequences"))}};
  for (const std::string_view phase :
       {"plan_s", "data_s", "forward_s", "backward_s", "exchange_s", "reduce_s", "optimizer_s"})
    summary.emplace_back(fmt::format("{}_mean", phase), mean(of(phase)));
  return summary;
}

std::vector<fs::path> spread(const std::vector<fs::path>& files, std::int64_t count) {
  const auto size = static_cast<std::int64_t>(files.size());
  if (size <= count) return files;
  std::vector<fs::path> some;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t at = count == 1 ? 0 : i * (size - 1) / (count - 1);
    some.push_back(files[static_cast<std::size_t>(at)]);
  }
  return some;
}

std::string run_json(const RunView& run) {
  const std::vector<std::size_t> shown = shown_steps(run.metrics.steps.size());
  std::vector<std::int64_t> steps;
  for (const std::size_t i : shown) steps.push_back(run.metrics.steps[i]);
  std::vector<std::string> notes;
  for (const std::string& note : run.notes) notes.push_back(json_string(note));
  std::string text = fmt::format(
      R"({{"name":{},"folder":{},"strategy":{},"ranks":{},"capacity":{},"config":{},"notes":[{}],"summary":{{)",
      json_string(run.name), json_string(run.folder.string()), json_string(run.strategy),
      optional_json(run.ranks), optional_json(run.capacity), json_string(run.config),
      fmt::join(notes, ","));
  const char* separator = "";
  for (const auto& [key, value] : summarize(run.metrics)) {
    text += fmt::format("{}\"{}\":{}", separator, key, json_number(value));
    separator = ",";
  }
  text += fmt::format("}},\"columns\":{{\"step\":[{}]", fmt::join(steps, ","));
  for (std::size_t k = 0; k < kMetricKeys.size(); ++k) {
    text += fmt::format(",\"{}\":{}", kMetricKeys[k], column_json(run.metrics.columns[k], shown));
  }
  return text + "}}";
}

}  // namespace weft
