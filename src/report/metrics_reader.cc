#include "report/metrics_reader.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"

namespace weft {
namespace {

constexpr std::string_view kSchemaPrefix = "weft.metrics.v";
constexpr std::string_view kSchema = "weft.metrics.v1";
constexpr double kMostExact = 9007199254740992.0;  // 2^53: beyond it doubles skip integers

// Where a line stands, for messages: "OUT/metrics.jsonl:3".
struct Place {
  std::string_view source;
  std::int64_t line = 0;
  std::string text() const { return fmt::format("{}:{}", source, line); }
};

std::string described(const nlohmann::json& value) {
  return value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace).substr(0, 60);
}

const nlohmann::json& member(const nlohmann::json& line, std::string_view key, const Place& place) {
  const auto found = line.find(key);
  WEFT_USER_CHECK(found != line.end(), "{}: no \"{}\"; every line of metrics.jsonl has it",
                  place.text(), key);
  return *found;
}

void check_schema(const nlohmann::json& line, const Place& place) {
  const nlohmann::json& schema = member(line, "schema", place);
  if (schema == kSchema) return;
  const bool is_other_version =
      schema.is_string() && schema.get<std::string>().starts_with(kSchemaPrefix);
  WEFT_USER_CHECK(!is_other_version,
                  "{}: schema {}, but this program reads \"{}\"; use the program "
                  "that wrote the file, or a newer one",
                  place.text(), described(schema), kSchema);
  throw_user_error("{}: schema is {}, expected \"{}\"", place.text(), described(schema), kSchema);
}

double number(const nlohmann::json& line, std::string_view key, const Place& place) {
  const nlohmann::json& value = member(line, key, place);
  if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
  WEFT_USER_CHECK(value.is_number(), "{}: \"{}\" is {}, expected a number or null", place.text(),
                  key, described(value));
  return value.get<double>();
}

void add_line(std::string_view text, const Place& place, MetricsTable& table) {
  nlohmann::json line;
  try {
    line = nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    throw_user_error("{}: not JSON: {}", place.text(), error.what());
  }
  WEFT_USER_CHECK(line.is_object(), "{}: {} is no JSON object", place.text(), described(line));
  check_schema(line, place);
  const nlohmann::json& step = member(line, "step", place);
  WEFT_USER_CHECK(
      step.is_number_integer() && step.get<double>() >= 0 && step.get<double>() <= kMostExact,
      "{}: \"step\" is {}, expected a whole number, 0 or more", place.text(), described(step));
  const auto number_of_step = step.get<std::int64_t>();
  WEFT_USER_CHECK(table.steps.empty() || number_of_step > table.steps.back(),
                  "{}: step {} follows step {}; steps must ascend", place.text(), number_of_step,
                  table.steps.empty() ? 0 : table.steps.back());
  table.steps.push_back(number_of_step);
  for (std::size_t k = 0; k < kMetricKeys.size(); ++k)
    table.columns[k].push_back(number(line, kMetricKeys[k], place));
  const nlohmann::json& hash = member(line, "plan_hash", place);
  WEFT_USER_CHECK(hash.is_string(), "{}: \"plan_hash\" is {}, expected a string", place.text(),
                  described(hash));
  table.plan_hashes.push_back(hash.get<std::string>());
}

}  // namespace

const std::vector<double>& MetricsTable::column(std::string_view key) const {
  const auto found = std::find(kMetricKeys.begin(), kMetricKeys.end(), key);
  WEFT_CHECK(found != kMetricKeys.end(), "no metric is called '{}'", key);
  return columns[static_cast<std::size_t>(found - kMetricKeys.begin())];
}

MetricsTable parse_metrics(std::string_view text, std::string_view source) {
  MetricsTable table;
  Place place{.source = source};
  while (!text.empty()) {
    ++place.line;
    const std::size_t end = text.find('\n');
    if (end == text.npos) {
      table.is_cut = true;
      break;
    }
    add_line(text.substr(0, end), place, table);
    text.remove_prefix(end + 1);
  }
  return table;
}

MetricsTable read_metrics(const std::filesystem::path& path) {
  return parse_metrics(read_text_file(path), path.string());
}

}  // namespace weft
