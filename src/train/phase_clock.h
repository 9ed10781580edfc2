// PhaseClock: splits one rank's step time into disjoint phases that add up to the whole.
//
// The time that forward and backward spend blocked on ring messages is taken out of them and
// counted as exchange, and what they wait for offloaded activations as offload. Waiting for other
// ranks inside the gradient reduction stays in reduce: that is where imbalance is paid.
#pragma once

#include <array>
#include <chrono>

#include "comm/communicator.h"
#include "memory/activation_store.h"

namespace weft {

enum class Phase { kPlan, kData, kForward, kBackward, kExchange, kOffload, kReduce, kOptimizer };
inline constexpr int kNumPhases = 8;

struct StepTimes {
  std::array<double, kNumPhases> seconds{};
  double step_s = 0;  // wall time from start() to stop()
  double busy_s =
      0;  // CPU time of the rank's own thread in forward and backward: its work, whoever else runs
  double& operator[](Phase phase) { return seconds[static_cast<std::size_t>(phase)]; }
  double operator[](Phase phase) const { return seconds[static_cast<std::size_t>(phase)]; }
};

// Belongs to one rank's thread.
class PhaseClock {
 public:
  // `offloaded`: what the rank's stores measure, growing while the clock runs; null: none offloads.
  explicit PhaseClock(const Communicator& comm, const OffloadMeasures* offloaded = nullptr)
      : comm_(comm), offloaded_(offloaded) {}

  void start(Phase first);
  void enter(Phase next);  // ends the current phase
  StepTimes stop();

 private:
  using Clock = std::chrono::steady_clock;
  void close_phase();

  double offload_wait_s() const;

  const Communicator& comm_;
  const OffloadMeasures* offloaded_;
  StepTimes times_;
  Phase phase_ = Phase::kPlan;
  Clock::time_point step_start_;
  Clock::time_point phase_start_;
  double phase_cpu_start_s_ = 0;
  Nanoseconds blocked_at_phase_start_;
  double offload_wait_at_phase_start_s_ = 0;
};

}  // namespace weft
