#include "train/compute_rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "machine/core_count.h"

namespace weft {
namespace {

double seconds_of_one_product(const at::Tensor& a, const at::Tensor& b, at::Tensor& out) {
  const auto start = std::chrono::steady_clock::now();
  at::mm_out(out, a, b);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

ComputePeak measure_compute_peak(at::ScalarType dtype, std::int32_t num_ranks,
                                 std::int32_t threads_per_rank) {
  constexpr std::int64_t kSize = 1024;
  constexpr int kRepeats = 4;
  set_blas_threads(1);
  set_compute_threads(1);
  const at::Tensor a = at::ones({kSize, kSize}, dtype);
  const at::Tensor b = at::ones({kSize, kSize}, dtype);
  at::Tensor out = at::empty({kSize, kSize}, dtype);
  double best_s = seconds_of_one_product(a, b, out);
  for (int i = 0; i < kRepeats; ++i) best_s = std::min(best_s, seconds_of_one_product(a, b, out));
  const double one_core = 2.0 * kSize * kSize * kSize / best_s;
  const auto cores = static_cast<std::int32_t>(count_cores(system_text()).usable());
  const std::int32_t used = std::min(cores, num_ranks * threads_per_rank);
  return {.flops_per_s = used * one_core,
          .source = fmt::format(
              "{} cores x {:.1f} GFLOP/s, measured: {} {}^3 matrix product on one thread", used,
              one_core * 1e-9, dtype_name(dtype), kSize)};
}

}  // namespace weft
