// A simulated step as the report draws it: its Timeline, with the figures that a reader compares.
//
// Shares, bytes and events are the Timeline's own; nothing is computed again. Events of device d,
// stage d % pipeline_stages of rank d / pipeline_stages, are [first_event[d], first_event[d + 1]).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/timeline.h"

namespace weft {

// Rows that the page draws at most.
inline constexpr std::int64_t kMostDevices = 1 << 20;

struct TimelineView {
  std::string name{};  // what the page calls it
  Timeline timeline{};
  double tokens_per_second = 0;  // NaN where the step takes no time
  double idle_share = 0;         // waiting for other ranks and for other stages
  double sent_bytes = 0;         // over all link classes
  double peak_bytes_min = 0;     // of the ranks
  double peak_bytes_median = 0;
  double peak_bytes_max = 0;
  std::vector<std::uint32_t> first_event{};  // [devices + 1]
};

// REQUIRES: the invariants of Timeline, which load_timeline() checks. UserError where it has more
// than kMostDevices devices.
TimelineView view_timeline(Timeline timeline, const std::string& name);

// Compact: columns, not objects. An event's start is the time since the event before it on its
// device ended (or since the step's start), its end the time since its start; its activity is one
// digit of the text "event_activity", an index into kActivityNames. "event_chunk" is there with
// virtual stages only.
std::string timeline_json(const TimelineView& view);

}  // namespace weft
