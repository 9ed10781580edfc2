#include "train/compute_rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "machine/fma_peak.h"

namespace weft {
namespace {

double one_core_rate(at::ScalarType dtype) {
  constexpr int kSamples = 10;
  constexpr std::chrono::milliseconds kSample(20);
  const FmaType type = dtype == at::kDouble ? FmaType::kDouble : FmaType::kFloat;
  return measure_fma_peak(type, 1, kSamples, kSample).flops_per_s;
}

ComputePeak peak_of(double num_cores, std::string_view cores, at::ScalarType dtype) {
  const double one_core = one_core_rate(dtype);
  return {
      .flops_per_s = num_cores * one_core,
      .source = fmt::format("{:.6g} {} x {:.1f} GFLOP/s, measured: {} multiply-adds on one thread",
                            num_cores, cores, one_core * 1e-9, dtype_name(dtype))};
}

}  // namespace

double cores_of_run(const RanksOnCores& ranks, const CoreCount& cores) {
  const double host = std::min<double>(cores.hardware, cores.cpu_time.value_or(cores.hardware));
  const double of_rank = std::min({static_cast<double>(ranks.threads_per_rank),
                                   static_cast<double>(cores.usable()) / ranks.ranks_here,
                                   host / ranks.ranks_on_host});
  return ranks.num_ranks * of_rank;
}

ComputePeak measure_compute_peak(at::ScalarType dtype, const RanksOnCores& ranks) {
  return peak_of(cores_of_run(ranks, count_cores(system_text())), "cores", dtype);
}

ComputePeak measure_virtual_peak(at::ScalarType dtype, std::int32_t num_ranks) {
  return peak_of(num_ranks, "virtual cores", dtype);
}

}  // namespace weft
