#include "train/compute_rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "machine/core_count.h"
#include "machine/fma_peak.h"

namespace weft {
namespace {

double one_core_rate(at::ScalarType dtype) {
  constexpr int kSamples = 10;
  constexpr std::chrono::milliseconds kSample(20);
  const FmaType type = dtype == at::kDouble ? FmaType::kDouble : FmaType::kFloat;
  return measure_fma_peak(type, 1, kSamples, kSample).flops_per_s;
}

ComputePeak peak_of(std::int32_t num_cores, std::string_view cores, at::ScalarType dtype) {
  const double one_core = one_core_rate(dtype);
  return {.flops_per_s = num_cores * one_core,
          .source = fmt::format("{} {} x {:.1f} GFLOP/s, measured: {} multiply-adds on one thread",
                                num_cores, cores, one_core * 1e-9, dtype_name(dtype))};
}

}  // namespace

ComputePeak measure_compute_peak(at::ScalarType dtype, std::int32_t num_ranks,
                                 std::int32_t threads_per_rank) {
  const auto cores = static_cast<std::int32_t>(count_cores(system_text()).usable());
  return peak_of(std::min(cores, num_ranks * threads_per_rank), "cores", dtype);
}

ComputePeak measure_virtual_peak(at::ScalarType dtype, std::int32_t num_ranks) {
  return peak_of(num_ranks, "virtual cores", dtype);
}

}  // namespace weft
