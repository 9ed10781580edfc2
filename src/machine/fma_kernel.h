// The inner loop of the FMA peak, compiled for every SIMD level and chosen at run time (Highway's
// dynamic dispatch), so that no build needs -march.
#pragma once

#include <cstdint>
#include <string>

namespace weft {

inline constexpr int kFmaAccumulators = 12;  // >= latency 4 x 2 units; fits 16 registers with x, y

struct FmaRun {
  double flops = 0;  // 2 per lane of each multiply-add
  double value = 0;  // mean of all lanes of all accumulators: each ran a = a * x + y `steps` times
};

// Accumulator k starts at k * y in every lane, so it ends at y * (k * x^steps + (1 - x^steps) / (1
// - x)).
FmaRun run_fma_float(std::int64_t steps, float x, float y);
FmaRun run_fma_double(std::int64_t steps, double x, double y);

struct SimdLevel {
  std::string name;  // Highway's: "AVX3" is AVX-512
  int float_lanes = 1;
  int double_lanes = 1;
};
SimdLevel simd_level();

}  // namespace weft
