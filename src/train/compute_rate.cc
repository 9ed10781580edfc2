#include "train/compute_rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "machine/core_count.h"
#include "machine/fma_peak.h"

namespace weft {

ComputePeak measure_compute_peak(at::ScalarType dtype, std::int32_t num_ranks,
                                 std::int32_t threads_per_rank) {
  constexpr int kSamples = 10;
  constexpr std::chrono::milliseconds kSample(20);
  const FmaType type = dtype == at::kDouble ? FmaType::kDouble : FmaType::kFloat;
  const double one_core = measure_fma_peak(type, 1, kSamples, kSample).flops_per_s;
  const auto cores = static_cast<std::int32_t>(count_cores(system_text()).usable());
  const std::int32_t used = std::min(cores, num_ranks * threads_per_rank);
  return {
      .flops_per_s = used * one_core,
      .source = fmt::format("{} cores x {:.1f} GFLOP/s, measured: {} multiply-adds on one thread",
                            used, one_core * 1e-9, dtype_name(dtype))};
}

}  // namespace weft
