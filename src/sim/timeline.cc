#include "sim/timeline.h"

#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json_fields.h"
#include "base/json_text.h"

namespace weft {
namespace {

// Version 2 is with virtual stages: their number, and each event's chunk.
constexpr std::array<std::string_view, 2> kSchemas{"weft.timeline.v1", "weft.timeline.v2"};
constexpr std::int64_t kMostRanks = 1 << 20;
constexpr std::int64_t kMostStages = 1 << 10;
constexpr std::int64_t kMostVirtualStages = 1 << 10;
constexpr std::int64_t kMostTime = std::int64_t{1} << 62;
constexpr std::size_t kEventNumbers = 7;  // of version 1
constexpr std::size_t kMostEventNumbers = 8;

// For messages: whatever bytes the file's strings hold.
std::string text_of(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

// The members that `table` lists, all of them and no others.
template <class Table, class Value>
void read_members(const nlohmann::ordered_json& json, const std::string& where, const Table& table,
                  Value& value) {
  WEFT_USER_CHECK(json.is_object(), "{}: expected a JSON object", where);
  const JsonFields fields(json, where);
  std::vector<std::string> keys;
  for (const auto& entry : table) keys.emplace_back(entry.key);
  fields.check_keys(keys, keys);
  for (const auto& entry : table) value.*entry.member = fields.number(entry.key);
}

TimelineEvent read_event(const nlohmann::ordered_json& row, const std::string& where,
                         const Timeline& timeline) {
  const std::size_t num_numbers = timeline.virtual_stages > 1 ? kMostEventNumbers : kEventNumbers;
  WEFT_USER_CHECK(row.is_array() && row.size() == num_numbers,
                  "{}: an event is {}, expected {} whole numbers", where, text_of(row),
                  num_numbers);
  const std::array<std::int64_t, kMostEventNumbers> most{
      timeline.num_ranks - 1,
      timeline.pipeline_stages - 1,
      static_cast<std::int64_t>(kActivityNames.size()) - 1,
      std::int64_t{1} << 30,
      std::int64_t{1} << 30,
      timeline.step_time.value(),
      timeline.step_time.value(),
      timeline.virtual_stages - 1};
  std::array<std::int64_t, kMostEventNumbers> values{};
  for (std::size_t i = 0; i < num_numbers; ++i) {
    const std::int64_t least = i == 3 || i == 4 ? -1 : 0;
    const bool is_good = row[i].is_number_integer() &&
                         row[i].get<double>() >= static_cast<double>(least) &&
                         row[i].get<double>() <= static_cast<double>(kMostTime);
    values[i] = is_good ? row[i].get<std::int64_t>() : -2;
    WEFT_USER_CHECK(is_good && values[i] >= least && values[i] <= most[i],
                    "{}: event {}: number {} is {}, expected {} to {}", where, text_of(row), i,
                    text_of(row[i]), least, most[i]);
  }
  WEFT_USER_CHECK(values[5] <= values[6], "{}: event {} ends before it starts", where,
                  text_of(row));
  return {.rank = static_cast<std::int32_t>(values[0]),
          .stage = static_cast<std::int32_t>(values[1]),
          .activity = static_cast<Activity>(values[2]),
          .micro_batch_idx = static_cast<std::int32_t>(values[3]),
          .slot_idx = static_cast<std::int32_t>(values[4]),
          .start = Nanoseconds(values[5]),
          .end = Nanoseconds(values[6]),
          .chunk = static_cast<std::int32_t>(values[7])};
}

void check_order(const Timeline& timeline, const std::string& where) {
  for (std::size_t i = 1; i < timeline.events.size(); ++i) {
    const TimelineEvent& a = timeline.events[i - 1];
    const TimelineEvent& b = timeline.events[i];
    const bool is_same = a.rank == b.rank && a.stage == b.stage;
    const bool is_after = std::pair(a.rank, a.stage) < std::pair(b.rank, b.stage);
    WEFT_USER_CHECK(is_after || (is_same && a.end <= b.start),
                    "{}: event {} of rank {} stage {} does not follow the one before it; expected "
                    "order: rank, stage, time, without overlap",
                    where, i, b.rank, b.stage);
  }
}

void write_head(FileWriter& out, const Timeline& timeline) {
  const bool has_chunks = timeline.virtual_stages > 1;
  out.write(fmt::format(
      "{{\"schema\":\"{}\",\"strategy\":{},\"cost\":{},\"step\":{},\"num_ranks\":{},"
      "\"pipeline_stages\":{},{}\"tokens\":{},\"micro_batches_time_ns\":{},\"step_time_ns\":{},\n",
      kSchemas[has_chunks ? 1 : 0], json_string(timeline.strategy), json_string(timeline.cost),
      timeline.step, timeline.num_ranks, timeline.pipeline_stages,
      has_chunks ? fmt::format("\"virtual_stages\":{},", timeline.virtual_stages) : "",
      timeline.tokens, timeline.micro_batches_time, timeline.step_time));
  const auto members = [&](const char* name, const auto& table, const auto& value) {
    nlohmann::ordered_json json;
    for (const auto& entry : table) json[entry.key] = value.*entry.member;
    out.write(fmt::format("\"{}\":{},\n", name, json.dump()));
  };
  members("split", kShareNames, timeline.split);
  members("bytes", kSentNames, timeline.bytes);
  out.write(fmt::format("\"peak_bytes\":{},\n", nlohmann::json(timeline.peak_bytes).dump()));
  out.write(fmt::format("\"activities\":{},\n", nlohmann::json(kActivityNames).dump()));
}

}  // namespace

void save_timeline(const std::filesystem::path& path, const Timeline& timeline) {
  AtomicFile file(path);
  FileWriter& out = file.writer();
  write_head(out, timeline);
  out.write("\"events\":[");
  const char* separator = "\n";
  for (const TimelineEvent& event : timeline.events) {
    out.write(fmt::format("{}[{},{},{},{},{},{},{}", separator, event.rank, event.stage,
                          static_cast<int>(event.activity), event.micro_batch_idx, event.slot_idx,
                          event.start, event.end));
    out.write(timeline.virtual_stages > 1 ? fmt::format(",{}]", event.chunk) : "]");
    separator = ",\n";
  }
  out.write("]}\n");
  file.commit();
}

Timeline load_timeline(const std::filesystem::path& path) {
  const nlohmann::ordered_json json = read_json_object(path, "timeline");
  const std::string where = fmt::format("timeline '{}'", path.string());
  const JsonFields fields(json, where);
  const bool has_chunks = fields.check_schema(kSchemas) == 1;
  WEFT_USER_CHECK(has_chunks || !fields.has("virtual_stages"),
                  "{}: \"virtual_stages\" needs schema \"{}\", but the file says \"{}\"", where,
                  kSchemas[1], kSchemas[0]);
  std::vector<std::string> keys{"schema",       "strategy",
                                "cost",         "step",
                                "num_ranks",    "pipeline_stages",
                                "tokens",       "split",
                                "bytes",        "events",
                                "peak_bytes",   "activities",
                                "step_time_ns", "micro_batches_time_ns"};
  if (has_chunks) keys.emplace_back("virtual_stages");
  fields.check_keys(keys, keys);
  Timeline timeline;
  timeline.strategy = fields.text("strategy");
  timeline.cost = fields.text("cost");
  timeline.step = fields.count("step", 0, kMostTime);
  timeline.num_ranks = static_cast<std::int32_t>(fields.count("num_ranks", 1, kMostRanks));
  timeline.pipeline_stages =
      static_cast<std::int32_t>(fields.count("pipeline_stages", 1, kMostStages));
  if (has_chunks)
    timeline.virtual_stages =
        static_cast<std::int32_t>(fields.count("virtual_stages", 2, kMostVirtualStages));
  timeline.tokens = fields.count("tokens", 0, kMostTime);
  timeline.step_time = Nanoseconds(fields.count("step_time_ns", 0, kMostTime));
  timeline.micro_batches_time =
      Nanoseconds(fields.count("micro_batches_time_ns", 0, timeline.step_time.value()));
  read_members(json["split"], where + ": \"split\"", kShareNames, timeline.split);
  read_members(json["bytes"], where + ": \"bytes\"", kSentNames, timeline.bytes);
  WEFT_USER_CHECK(json["activities"] == nlohmann::ordered_json(kActivityNames),
                  "{}: \"activities\" is {}, expected [{}]", where, text_of(json["activities"]),
                  fmt::join(kActivityNames, ", "));
  WEFT_USER_CHECK(json["peak_bytes"].is_array() &&
                      json["peak_bytes"].size() == static_cast<std::size_t>(timeline.num_ranks),
                  "{}: \"peak_bytes\" must be a list of {} numbers, one for each rank", where,
                  timeline.num_ranks);
  for (const auto& bytes : json["peak_bytes"]) {
    WEFT_USER_CHECK(bytes.is_number(), "{}: \"peak_bytes\" holds {}, expected numbers", where,
                    text_of(bytes));
    timeline.peak_bytes.push_back(bytes.get<double>());
  }
  WEFT_USER_CHECK(json["events"].is_array(), "{}: \"events\" must be a list", where);
  for (const auto& row : json["events"])
    timeline.events.push_back(read_event(row, where, timeline));
  check_order(timeline, where);
  return timeline;
}

}  // namespace weft
