#include "train/phase_clock.h"

#include "machine/work_clock.h"

namespace weft {
namespace {

bool computes(Phase phase) { return phase == Phase::kForward || phase == Phase::kBackward; }

}  // namespace

double PhaseClock::offload_wait_s() const {
  return offloaded_ == nullptr ? 0 : std::chrono::duration<double>(offloaded_->waited).count();
}

void PhaseClock::start(Phase first) {
  times_ = StepTimes();
  phase_ = first;
  step_start_ = phase_start_ = comm_.now();
  phase_cpu_start_s_ = thread_cpu_seconds();
  allocations_at_phase_start_ = memory_.total_allocations();
  blocked_at_phase_start_ = comm_.stats(Channel::kRing).blocked;
  offload_wait_at_phase_start_s_ = offload_wait_s();
}

void PhaseClock::close_phase() {
  const auto now = comm_.now();
  const double elapsed_s = std::chrono::duration<double>(now - phase_start_).count();
  const double cpu_s = thread_cpu_seconds();
  const Nanoseconds blocked = comm_.stats(Channel::kRing).blocked;
  const double exchange_s = computes(phase_) ? seconds(blocked - blocked_at_phase_start_) : 0;
  const double waited_s = offload_wait_s();
  const double offload_s = waited_s - offload_wait_at_phase_start_s_;
  times_[phase_] += elapsed_s - exchange_s - offload_s;
  times_[Phase::kExchange] += exchange_s;
  times_[Phase::kOffload] += offload_s;
  if (computes(phase_)) times_.busy_s += cpu_s - phase_cpu_start_s_;
  const std::int64_t allocations = memory_.total_allocations();
  times_.allocations[static_cast<std::size_t>(phase_)] +=
      allocations - std::exchange(allocations_at_phase_start_, allocations);
  phase_start_ = now;
  phase_cpu_start_s_ = cpu_s;
  blocked_at_phase_start_ = blocked;
  offload_wait_at_phase_start_s_ = waited_s;
}

void PhaseClock::enter(Phase next) {
  close_phase();
  phase_ = next;
}

StepTimes PhaseClock::stop() {
  close_phase();
  times_.step_s = std::chrono::duration<double>(phase_start_ - step_start_).count();
  return times_;
}

}  // namespace weft
