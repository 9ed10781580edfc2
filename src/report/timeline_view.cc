#include "report/timeline_view.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/json_text.h"
#include "report/json_column.h"

namespace weft {
namespace {

static_assert(kActivityNames.size() <= 10, "an activity is one digit in the page");

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::vector<std::uint32_t> first_events(const Timeline& timeline) {
  const auto stages = static_cast<std::size_t>(timeline.pipeline_stages);
  std::vector<std::uint32_t> first(static_cast<std::size_t>(timeline.num_ranks) * stages + 1);
  for (const TimelineEvent& event : timeline.events)
    ++first[static_cast<std::size_t>(event.rank) * stages + static_cast<std::size_t>(event.stage) +
            1];
  for (std::size_t d = 1; d < first.size(); ++d) first[d] += first[d - 1];
  return first;
}

// ,"key":{"name":value, ...}
template <class Table, class Value>
void append_members(std::string& text, std::string_view key, const Table& table,
                    const Value& value) {
  fmt::format_to(std::back_inserter(text), ",\"{}\":{{", key);
  const char* separator = "";
  for (const auto& entry : table) {
    fmt::format_to(std::back_inserter(text), "{}\"{}\":{}", separator, entry.key,
                   json_number(value.*entry.member));
    separator = ",";
  }
  text += '}';
}

// Time since the event before it on its device; events of other devices follow from 0 again.
std::vector<Nanoseconds> gaps_before(const Timeline& timeline) {
  std::vector<Nanoseconds> gaps;
  gaps.reserve(timeline.events.size());
  const TimelineEvent* before = nullptr;
  for (const TimelineEvent& event : timeline.events) {
    const bool is_same =
        before != nullptr && before->rank == event.rank && before->stage == event.stage;
    gaps.push_back(is_same ? event.start - before->end : event.start);
    before = &event;
  }
  return gaps;
}

void append_head(std::string& text, const TimelineView& view) {
  const Timeline& timeline = view.timeline;
  fmt::format_to(
      std::back_inserter(text),
      R"({{"name":{},"strategy":{},"cost":{},"step":{},"ranks":{},"stages":{},"virtual_stages":{},"tokens":{},)"
      R"("micro_batches_time_ns":{},"step_time_ns":{},"tokens_per_s":{},"idle_share":{},)"
      R"("sent_bytes":{},"peak_bytes_min":{},"peak_bytes_median":{},"peak_bytes_max":{})",
      json_string(view.name), json_string(timeline.strategy), json_string(timeline.cost),
      timeline.step, timeline.num_ranks, timeline.pipeline_stages, timeline.virtual_stages,
      timeline.tokens, timeline.micro_batches_time, timeline.step_time,
      json_number(view.tokens_per_second), json_number(view.idle_share),
      json_number(view.sent_bytes), json_number(view.peak_bytes_min),
      json_number(view.peak_bytes_median), json_number(view.peak_bytes_max));
}

}  // namespace

TimelineView view_timeline(Timeline timeline, const std::string& name) {
  const std::int64_t num_devices =
      std::int64_t{timeline.num_ranks} * std::int64_t{timeline.pipeline_stages};
  WEFT_USER_CHECK(num_devices <= kMostDevices,
                  "report: Timeline '{}' has {} devices ({} ranks of {} stages); a page draws at "
                  "most {}",
                  name, num_devices, timeline.num_ranks, timeline.pipeline_stages, kMostDevices);
  WEFT_CHECK(!timeline.peak_bytes.empty(), "Timeline '{}' has no rank", name);
  TimelineView view{.name = name};
  const double seconds = static_cast<double>(timeline.step_time.value()) * 1e-9;
  view.tokens_per_second = seconds > 0 ? static_cast<double>(timeline.tokens) / seconds
                                       : std::numeric_limits<double>::quiet_NaN();
  view.idle_share = timeline.split.data_parallel_bubble + timeline.split.pipeline_bubble;
  for (const SentName& sent : kSentNames) view.sent_bytes += timeline.bytes.*sent.member;
  const auto [least, most] =
      std::minmax_element(timeline.peak_bytes.begin(), timeline.peak_bytes.end());
  view.peak_bytes_min = *least;
  view.peak_bytes_max = *most;
  view.peak_bytes_median = median(timeline.peak_bytes);
  view.first_event = first_events(timeline);
  view.timeline = std::move(timeline);
  return view;
}

std::string timeline_json(const TimelineView& view) {
  const Timeline& timeline = view.timeline;
  std::string text;
  append_head(text, view);
  append_members(text, "split", kShareNames, timeline.split);
  append_members(text, "bytes", kSentNames, timeline.bytes);
  append_column(text, "activities", kActivityNames, json_string);
  append_column(text, "peak_bytes", timeline.peak_bytes, json_number);
  append_column(text, "first_event", view.first_event, [](std::uint32_t first) { return first; });
  text += ",\"event_activity\":\"";
  for (const TimelineEvent& event : timeline.events)
    text += static_cast<char>('0' + static_cast<int>(event.activity));
  text += '"';
  append_column(text, "event_micro_batch", timeline.events,
                [](const TimelineEvent& e) { return e.micro_batch_idx; });
  append_column(text, "event_slot", timeline.events,
                [](const TimelineEvent& e) { return e.slot_idx; });
  if (timeline.virtual_stages > 1)
    append_column(text, "event_chunk", timeline.events,
                  [](const TimelineEvent& e) { return e.chunk; });
  append_column(text, "event_gap", gaps_before(timeline), [](Nanoseconds gap) { return gap; });
  append_column(text, "event_ns", timeline.events,
                [](const TimelineEvent& e) { return e.end - e.start; });
  return text + '}';
}

}  // namespace weft
