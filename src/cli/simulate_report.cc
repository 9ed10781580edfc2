#include "cli/simulate_report.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/json_text.h"

namespace weft {
namespace {

// Of all device time, above which an idle share is worth a line.
constexpr double kWorthSaying = 0.05;

// Columns of the table, in the order of kShareNames.
constexpr std::array<std::string_view, kShareNames.size()> kShareTitles{
    "compute", "exch", "offl", "dp idle", "pp idle", "reduce", "optim"};

std::string gigabytes(double bytes) { return fmt::format("{:.1f} GB", bytes / 1e9); }

nlohmann::ordered_json json_of(const StrategyOutlook& outlook) {
  nlohmann::ordered_json json;
  json["strategy"] = outlook.strategy;
  json["step_s"] = outlook.step_s;
  json["tokens_per_second"] = outlook.tokens_per_second;
  json["mfu"] = outlook.mfu;
  json["device_hours_per_billion_tokens"] = outlook.device_hours_per_billion_tokens;
  for (const ShareName& share : kShareNames) json["split"][share.key] = outlook.split.*share.member;
  for (const SentName& sent : kSentNames) json["bytes"][sent.key] = outlook.bytes.*sent.member;
  json["peak_bytes"] = outlook.peak_bytes;
  json["fits"] = outlook.fits;
  return json;
}

void print_head(const CaseOutlook& outlook) {
  const Scenario& scenario = outlook.input.scenario;
  const Mesh& mesh = scenario.setup.mesh;
  const DeviceMemory memory = device_memory(scenario.model, scenario.setup);
  fmt::print("model      {}: {:.1f} B parameters ({:.1f} B active), {} layers\n",
             scenario.model.name, num_parameters(scenario.model) / 1e9,
             num_active_parameters(scenario.model) / 1e9, scenario.model.num_layers);
  fmt::print("cluster    {}: {} devices as {} ranks x {} tensor x {} pipeline{}\n",
             scenario.cluster.name, mesh.num_devices(), mesh.num_ranks, mesh.tensor, mesh.pipeline,
             scenario.setup.virtual_stages > 1
                 ? fmt::format(", {} virtual stages a device", scenario.setup.virtual_stages)
                 : "");
  fmt::print("step       {} sequences, {} tokens, longest {}\n", outlook.num_sequences,
             outlook.num_tokens, outlook.longest);
  fmt::print(
      "capacity   {} tokens a rank{}; {} would fit\n", format_count(outlook.input.capacity.value()),
      outlook.input.is_capacity_given ? "" : " (the largest)", outlook.input.largest_capacity);
  fmt::print(
      "memory     {} of {} a device for weights, gradients and optimizer, {:.2f} MB a token "
      "of capacity\n",
      gigabytes(memory.states()), gigabytes(scenario.cluster.memory_bytes),
      (memory.activations_per_token + memory.logits_per_token) / 1e6);
  fmt::print("cost       {}\n\n", scenario.cost.name);
}

std::string split_columns(const IdleSplit& split) {
  std::string text;
  for (const ShareName& share : kShareNames)
    text += fmt::format(" {:>7.1f}", 100 * (split.*share.member));
  return text;
}

std::string split_titles() {
  std::string text;
  for (const std::string_view title : kShareTitles) text += fmt::format(" {:>7}", title);
  return text;
}

std::string joined(const std::vector<std::string>& values) {
  std::string text;
  for (const std::string& value : values) text += value + ",";
  return text;
}

// Columns as wide as their keys.
std::string padded(const std::vector<std::string>& keys, const std::vector<std::string>& values) {
  constexpr std::size_t kLeast = 12;
  std::string text;
  for (std::size_t i = 0; i < keys.size(); ++i)
    text += fmt::format("{:<{}} ", values[i], std::max(kLeast, keys[i].size()));
  return text;
}

// "simulate: why" or "plan: why" -> "why": the row says what it is about.
std::string_view without_module(std::string_view reason) {
  const std::size_t end = reason.find_first_not_of("abcdefghijklmnopqrstuvwxyz");
  return reason.substr(std::min(end, reason.size())).starts_with(": ") ? reason.substr(end + 2)
                                                                       : reason;
}

std::string row_of(const StrategyOutlook& outlook) {
  return fmt::format("{:<14} {:>9.3f} {:>11.0f} {:>6.1f} {:>9.1f}{} {:>9.1f} {:>8.1f}{}",
                     outlook.strategy, outlook.step_s, outlook.tokens_per_second, 100 * outlook.mfu,
                     outlook.device_hours_per_billion_tokens, split_columns(outlook.split),
                     (outlook.bytes.nic_exchange + outlook.bytes.nic_reduction) / 1e9,
                     outlook.peak_bytes / 1e9, outlook.fits ? "" : "  does not fit");
}

std::string row_titles() {
  return fmt::format("{:<14} {:>9} {:>11} {:>6} {:>9}{} {:>9} {:>8}", "strategy", "step s",
                     "tokens/s", "MFU %", "GPU-h/B", split_titles(), "NIC GB", "peak GB");
}

// A device's layers can be cut into more chunks than they are.
bool can_interleave_more(const Scenario& scenario) {
  const std::int64_t stages = scenario.setup.mesh.pipeline;
  return stages > 1 && scenario.model.num_layers % stages == 0 &&
         scenario.model.num_layers / stages > scenario.setup.virtual_stages;
}

void advise_on_memory(const CaseOutlook& outlook, std::vector<std::string>& lines) {
  const SimulationCase& input = outlook.input;
  const Scenario& scenario = input.scenario;
  if (outlook.strategies.front().fits) return;
  if (input.largest_capacity >= Tokens(1)) {
    lines.push_back(
        fmt::format("it does not fit: lower --capacity to {} or less, or raise --tp "
                    "or --pp",
                    input.largest_capacity));
  } else {
    lines.push_back(
        fmt::format("weights, gradients and optimizer alone do not fit: raise --tp (now {}) or "
                    "--pp (now {})",
                    scenario.setup.mesh.tensor, scenario.setup.mesh.pipeline));
  }
  if (scenario.setup.recompute == Recompute::kFull) return;
  TrainingSetup setup = scenario.setup;
  setup.recompute = Recompute::kFull;
  const Tokens most = largest_capacity(scenario.model, scenario.cluster, setup, kMemoryReserve);
  if (most >= input.capacity)
    lines.push_back(fmt::format("--recompute full would fit (up to {} tokens a rank)", most));
}

}  // namespace

void StrategyOutlook::add(const StepOutlook& step) {
  ++num_steps;
  step_s += step.step_s;
  tokens_per_second += static_cast<double>(step.timeline.tokens);
  mfu += step.mfu * step.step_s;
  device_hours_per_billion_tokens +=
      step.device_hours_per_billion_tokens * static_cast<double>(step.timeline.tokens);
  for (const ShareName& share : kShareNames)
    split.*share.member += step.timeline.split.*share.member * step.step_s;
  for (const SentName& sent : kSentNames) bytes.*sent.member += step.timeline.bytes.*sent.member;
  peak_bytes = std::max(peak_bytes, step.peak_bytes);
  fits = fits && step.fits;
}

void StrategyOutlook::finish() {
  if (num_steps == 0 || step_s <= 0) return;
  const auto steps = static_cast<double>(num_steps);
  device_hours_per_billion_tokens /= tokens_per_second;
  tokens_per_second /= step_s;
  mfu /= step_s;
  for (const ShareName& share : kShareNames) split.*share.member /= step_s;
  for (const SentName& sent : kSentNames) bytes.*sent.member /= steps;
  step_s /= steps;
}

void sort_best_first(std::vector<StrategyOutlook>& strategies) {
  std::reverse(strategies.begin(), strategies.end());
  std::stable_sort(strategies.begin(), strategies.end(),
                   [](const StrategyOutlook& a, const StrategyOutlook& b) {
                     return std::pair(!a.fits, a.step_s) < std::pair(!b.fits, b.step_s);
                   });
}

std::vector<std::string> advice(const CaseOutlook& outlook) {
  std::vector<std::string> lines;
  if (outlook.strategies.empty()) return lines;
  const StrategyOutlook& best = outlook.strategies.front();
  advise_on_memory(outlook, lines);
  const IdleSplit& split = best.split;
  const double exchanged = best.bytes.nic_exchange + best.bytes.node_exchange;
  if (split.exposed_exchange > kWorthSaying) {
    lines.push_back(
        fmt::format("{:.0f} % of the time waits for K and V: faster links, or a larger "
                    "--capacity, would shorten the step",
                    100 * split.exposed_exchange));
  } else if (exchanged > 0) {
    lines.push_back(
        fmt::format("the exchange of K and V is hidden behind compute ({:.1f} % of the time is "
                    "not): faster links would not help",
                    100 * split.exposed_exchange));
  }
  if (split.data_parallel_bubble > kWorthSaying) {
    lines.push_back(
        fmt::format("{:.0f} % of the time ranks wait for others: more tokens a step, "
                    "or fewer ranks, would fill them",
                    100 * split.data_parallel_bubble));
  }
  if (split.pipeline_bubble > kWorthSaying) {
    lines.push_back(
        fmt::format("{:.0f} % of the time is pipeline bubble: more micro-batches a rank, {}",
                    100 * split.pipeline_bubble,
                    can_interleave_more(outlook.input.scenario)
                        ? fmt::format("fewer stages, or more --virtual-stages (now {})",
                                      outlook.input.scenario.setup.virtual_stages)
                        : "or fewer stages"));
  }
  if (split.reduction > kWorthSaying) {
    lines.push_back(
        fmt::format("{:.0f} % of the time reduces gradients, none of it hidden: more "
                    "tokens a step",
                    100 * split.reduction));
  }
  return lines;
}

void print_case(const CaseOutlook& outlook) {
  print_head(outlook);
  fmt::print("{}\n", row_titles());
  for (const StrategyOutlook& strategy : outlook.strategies) fmt::print("{}\n", row_of(strategy));
  const std::vector<std::string> lines = advice(outlook);
  for (const std::string& line : lines)
    fmt::print("{}- {}\n", &line == &lines.front() ? "\n" : "", line);
}

std::string case_json(const CaseOutlook& outlook) {
  const Scenario& scenario = outlook.input.scenario;
  nlohmann::ordered_json json;
  json["model"] = scenario.model.name;
  json["cluster"] = scenario.cluster.name;
  json["devices"] = scenario.setup.mesh.num_devices();
  json["ranks"] = scenario.setup.mesh.num_ranks;
  json["tp"] = scenario.setup.mesh.tensor;
  json["pp"] = scenario.setup.mesh.pipeline;
  if (scenario.setup.virtual_stages > 1) json["virtual_stages"] = scenario.setup.virtual_stages;
  json["capacity"] = outlook.input.capacity.value();
  json["largest_capacity"] = outlook.input.largest_capacity.value();
  json["tokens"] = outlook.num_tokens;
  json["sequences"] = outlook.num_sequences;
  json["longest"] = outlook.longest;
  json["best"] = outlook.strategies.empty() ? "" : outlook.strategies.front().strategy;
  json["strategies"] = nlohmann::ordered_json::array();
  for (const StrategyOutlook& strategy : outlook.strategies)
    json["strategies"].push_back(json_of(strategy));
  json["advice"] = advice(outlook);
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string outlook_csv_header() {
  std::string text = "strategy,step_s,tokens_per_second,mfu,device_hours_per_billion_tokens";
  for (const ShareName& share : kShareNames) text += fmt::format(",{}", share.key);
  for (const SentName& sent : kSentNames) text += fmt::format(",{}_bytes", sent.key);
  return text + ",peak_bytes,fits";
}

std::string outlook_csv(const StrategyOutlook& outlook) {
  std::string text =
      fmt::format("{},{:.6f},{:.1f},{:.5f},{:.3f}", outlook.strategy, outlook.step_s,
                  outlook.tokens_per_second, outlook.mfu, outlook.device_hours_per_billion_tokens);
  for (const ShareName& share : kShareNames)
    text += fmt::format(",{:.5f}", outlook.split.*share.member);
  for (const SentName& sent : kSentNames)
    text += fmt::format(",{:.0f}", outlook.bytes.*sent.member);
  return text + fmt::format(",{:.0f},{}", outlook.peak_bytes, outlook.fits);
}

std::string sweep_csv_header(const std::vector<std::string>& sweep_keys) {
  return joined(sweep_keys) + outlook_csv_header() + ",impossible";
}

std::string sweep_csv(const std::vector<std::string>& sweep_values,
                      const StrategyOutlook& outlook) {
  return joined(sweep_values) + outlook_csv(outlook) + ",";
}

std::string impossible_csv(const std::vector<std::string>& sweep_values, std::string_view reason) {
  const std::string header = outlook_csv_header();
  const auto num_commas = static_cast<std::size_t>(std::count(header.begin(), header.end(), ','));
  std::string quoted;
  for (const char letter : without_module(reason))
    quoted += letter == '"' ? "\"\"" : std::string(1, letter);
  return fmt::format("{}{},\"{}\"", joined(sweep_values), std::string(num_commas, ','), quoted);
}

std::string sweep_header(const std::vector<std::string>& sweep_keys) {
  return padded(sweep_keys, sweep_keys) + row_titles();
}

std::string sweep_row(const std::vector<std::string>& sweep_keys,
                      const std::vector<std::string>& sweep_values,
                      const StrategyOutlook& outlook) {
  return padded(sweep_keys, sweep_values) + row_of(outlook);
}

std::string impossible_row(const std::vector<std::string>& sweep_keys,
                           const std::vector<std::string>& sweep_values, std::string_view reason) {
  return fmt::format("{}impossible: {}", padded(sweep_keys, sweep_values), without_module(reason));
}

}  // namespace weft
