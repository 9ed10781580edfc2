// The most floating-point operations per second that cores reach: independent fused multiply-adds
// from registers. The limit that matrix products, attention and a training step are a share of.
#pragma once

#include <chrono>
#include <cstdint>

#include "machine/fma_kernel.h"

namespace weft {

enum class FmaType : std::uint8_t { kFloat, kDouble };

// One sample, FLOP/s. One thread: over the time that it had a core for (WorkClock). Several: all
// start together and run for about `duration`; the sum of what they did over the wall time of the
// slowest, so that cores which are not free show.
double sample_fma_rate(FmaType type, int num_threads, std::chrono::nanoseconds duration);

// The clock of the core that this thread runs on right now, in Hz, from a chain of dependent
// additions (one per cycle). Frequency scaling makes the numbers of /proc/cpuinfo unusable here.
double sample_clock_rate(std::chrono::nanoseconds duration);

struct FmaPeak {
  double flops_per_s = 0;
  int num_threads = 1;
};
// Best of `num_samples` samples.
FmaPeak measure_fma_peak(FmaType type, int num_threads, int num_samples,
                         std::chrono::nanoseconds duration);

// What a core with two FMA units can do at `clock_rate`: lanes x 2 FLOP x 2 units x clock.
double two_unit_peak(FmaType type, double clock_rate);

}  // namespace weft
