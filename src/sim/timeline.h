// Timeline: what every device does in one simulated step, as a value.
//
// A device is one stage of one rank (a tensor-parallel slice counts as one); with virtual stages it
// runs the passes of several chunks of layers, one at a time. Its events do not overlap and ascend;
// time between them is idle. Within a pass the layers' compute and exposed exchange alternate; here
// they are summed, compute first. Invariants, checked when a file is read:
// ranks and stages in range, 0 <= start <= end <= step_time. JSON form: docs/formats.md "Timeline".
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace weft {

enum class Activity : std::uint8_t {
  kForward,    // compute
  kBackward,   // compute
  kExchange,   // hops of K and V that attention does not hide
  kOffload,    // copies that no layer hides
  kWaitGroup,  // for the slowest rank of the slot
  kReduce,     // gradients summed, weights gathered
  kOptimizer,
};
inline constexpr std::array<std::string_view, 7> kActivityNames{
    "forward", "backward", "exchange", "offload", "wait_group", "reduce", "optimizer"};

struct TimelineEvent {
  std::int32_t rank = 0;
  std::int32_t stage = 0;
  Activity activity = Activity::kForward;
  std::int32_t micro_batch_idx = -1;  // of the rank; -1 at the end of the step
  std::int32_t slot_idx = -1;
  Nanoseconds start;
  Nanoseconds end;
  std::int32_t chunk = 0;  // of the device's virtual stages
  friend bool operator==(const TimelineEvent&, const TimelineEvent&) = default;
};

// Shares of all device time of the step; they add up to 1.
struct IdleSplit {
  double compute = 0;
  double exposed_exchange = 0;
  double exposed_offload = 0;
  double data_parallel_bubble = 0;  // waiting for other ranks: for a group, or for the step's end
  double pipeline_bubble = 0;       // waiting for other stages of the same rank
  double reduction = 0;
  double optimizer = 0;
  friend bool operator==(const IdleSplit&, const IdleSplit&) = default;
};

// Sent in the whole step, summed over devices.
struct LinkBytes {
  double node_exchange = 0;   // K, V and their gradients round rings, inside nodes
  double nic_exchange = 0;    // the same, between nodes
  double node_reduction = 0;  // gradients and weights
  double nic_reduction = 0;
  double host_copies = 0;  // offload, both ways
  friend bool operator==(const LinkBytes&, const LinkBytes&) = default;
};

// Names of the members in every output.
struct ShareName {
  const char* key;
  double IdleSplit::* member;
};
inline constexpr std::array<ShareName, 7> kShareNames{
    {{"compute", &IdleSplit::compute},
     {"exposed_exchange", &IdleSplit::exposed_exchange},
     {"exposed_offload", &IdleSplit::exposed_offload},
     {"data_parallel_bubble", &IdleSplit::data_parallel_bubble},
     {"pipeline_bubble", &IdleSplit::pipeline_bubble},
     {"reduction", &IdleSplit::reduction},
     {"optimizer", &IdleSplit::optimizer}}};
struct SentName {
  const char* key;
  double LinkBytes::* member;
};
inline constexpr std::array<SentName, 5> kSentNames{{{"node_exchange", &LinkBytes::node_exchange},
                                                     {"nic_exchange", &LinkBytes::nic_exchange},
                                                     {"node_reduction", &LinkBytes::node_reduction},
                                                     {"nic_reduction", &LinkBytes::nic_reduction},
                                                     {"host_copies", &LinkBytes::host_copies}}};

struct Timeline {
  std::string strategy;
  std::string cost;  // name of the cost model
  std::int64_t step = 0;
  std::int32_t num_ranks = 0;
  std::int32_t pipeline_stages = 1;
  std::int32_t virtual_stages = 1;  // chunks of layers on a device
  std::int64_t tokens = 0;
  Nanoseconds micro_batches_time;  // until the last micro-batch ends
  Nanoseconds step_time;           // with reduction and optimizer
  IdleSplit split;
  LinkBytes bytes;
  std::vector<double> peak_bytes;     // [num_ranks]: the fullest device of each rank
  std::vector<TimelineEvent> events;  // by rank, stage, start
  friend bool operator==(const Timeline&, const Timeline&) = default;
};

void save_timeline(const std::filesystem::path& path, const Timeline& timeline);
// UserError when the file is no Timeline or breaks its invariants.
Timeline load_timeline(const std::filesystem::path& path);

// For chrome://tracing and Perfetto: a process for each rank, a thread for each stage.
void save_chrome_trace(const std::filesystem::path& path, const Timeline& timeline);

}  // namespace weft
