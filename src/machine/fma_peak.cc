#include "machine/fma_peak.h"

#include <algorithm>
#include <barrier>
#include <thread>
#include <vector>

#include "machine/work_clock.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kStepsPerLook = 20'000;  // some ten microseconds between looks at the clock

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

FmaRun run_steps(FmaType type) {
  // y / (1 - x) = 1: values stay normal numbers however long it runs.
  return type == FmaType::kFloat ? run_fma_float(kStepsPerLook, 0.5F, 0.5F)
                                 : run_fma_double(kStepsPerLook, 0.5, 0.5);
}

struct Counted {
  double flops = 0;
  double wall_s = 0;
  double work_s = 0;  // on the thread's own clock
};

Counted run_for(FmaType type, std::chrono::nanoseconds duration) {
  const double limit_s = std::chrono::duration<double>(duration).count();
  Counted counted;
  const WorkClock work;
  const auto start = Clock::now();
  do {
    counted.flops += run_steps(type).flops;
    counted.wall_s = seconds_since(start);
  } while (counted.wall_s < limit_s);
  counted.work_s = work.elapsed_s();
  return counted;
}

}  // namespace

double sample_fma_rate(FmaType type, int num_threads, std::chrono::nanoseconds duration) {
  if (num_threads <= 1) {
    const Counted counted = run_for(type, duration);
    return counted.flops / counted.work_s;
  }
  std::vector<Counted> counted(static_cast<std::size_t>(num_threads));
  std::barrier start(num_threads);
  {
    std::vector<std::jthread> threads;
    for (Counted& mine : counted) {
      threads.emplace_back([&start, &mine, type, duration] {
        start.arrive_and_wait();
        mine = run_for(type, duration);
      });
    }
  }
  double flops = 0;
  double slowest_s = 0;
  for (const Counted& one : counted) {
    flops += one.flops;
    slowest_s = std::max(slowest_s, one.wall_s);
  }
  return flops / slowest_s;
}

double sample_clock_rate(std::chrono::nanoseconds duration) {
  constexpr std::int64_t kChain = 20'000;
  constexpr int kUnrolled = 8;
  const double limit_s = std::chrono::duration<double>(duration).count();
  std::uint64_t value = 1;
  std::uint64_t addend = 3;
  double additions = 0;
  const WorkClock work;
  const auto start = Clock::now();
  do {
    for (std::int64_t i = 0; i < kChain; ++i) {
      for (int k = 0; k < kUnrolled; ++k) {
        value += addend;
        // Each addition needs the one before it, and the compiler may not join them.
        asm volatile("" : "+r"(value), "+r"(addend));
      }
    }
    additions += static_cast<double>(kChain) * kUnrolled;
  } while (seconds_since(start) < limit_s);
  return additions / work.elapsed_s();
}

FmaPeak measure_fma_peak(FmaType type, int num_threads, int num_samples,
                         std::chrono::nanoseconds duration) {
  FmaPeak peak{.flops_per_s = 0, .num_threads = num_threads};
  for (int i = 0; i < num_samples; ++i)
    peak.flops_per_s = std::max(peak.flops_per_s, sample_fma_rate(type, num_threads, duration));
  return peak;
}

double two_unit_peak(FmaType type, double clock_rate) {
  const SimdLevel level = simd_level();
  const int lanes = type == FmaType::kFloat ? level.float_lanes : level.double_lanes;
  return lanes * 2.0 * 2.0 * clock_rate;
}

}  // namespace weft
