// PhaseClock: splits one rank's step time into disjoint phases that add up to the whole.
//
// The time that forward and backward spend blocked on ring messages is taken out of them and
// counted as exchange, and what they wait for offloaded activations as offload. Waiting for other
// ranks inside the gradient reduction stays in reduce: that is where imbalance is paid. The tensors
// that each phase makes are counted beside its time.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <utility>

#include "comm/communicator.h"
#include "memory/activation_store.h"
#include "memory/counting_allocator.h"

namespace weft {

enum class Phase { kPlan, kData, kForward, kBackward, kExchange, kOffload, kReduce, kOptimizer };
inline constexpr int kNumPhases = 8;

struct StepTimes {
  std::array<double, kNumPhases> seconds{};
  double step_s = 0;  // wall time from start() to stop()
  double busy_s =
      0;  // CPU time of the rank's own thread in forward and backward: its work, whoever else runs
  std::array<std::int64_t, kNumPhases> allocations{};  // tensors made in each phase
  double& operator[](Phase phase) { return seconds[static_cast<std::size_t>(phase)]; }
  double operator[](Phase phase) const { return seconds[static_cast<std::size_t>(phase)]; }
};

// Belongs to one rank's thread.
class PhaseClock {
 public:
  // `memory`: charged with what the rank allocates. `offloaded`: what the rank's stores measure,
  // growing while the clock runs; null: none offloads.
  explicit PhaseClock(const Communicator& comm, AllocationCounter memory = {},
                      const OffloadMeasures* offloaded = nullptr)
      : comm_(comm), memory_(std::move(memory)), offloaded_(offloaded) {}

  void start(Phase first);
  void enter(Phase next);  // ends the current phase
  StepTimes stop();

 private:
  void close_phase();

  double offload_wait_s() const;

  const Communicator& comm_;
  AllocationCounter memory_;
  const OffloadMeasures* offloaded_;
  StepTimes times_;
  Phase phase_ = Phase::kPlan;
  std::chrono::nanoseconds step_start_{};
  std::chrono::nanoseconds phase_start_{};
  double phase_cpu_start_s_ = 0;
  std::int64_t allocations_at_phase_start_ = 0;
  Nanoseconds blocked_at_phase_start_;
  double offload_wait_at_phase_start_s_ = 0;
};

}  // namespace weft
