// What the machine itself can do: the limits that the other rows are a share of.
#include "base/error.h"
#include "bench/harness/bench_main.h"
#include "bench/harness/limits.h"
#include "bench/harness/measure.h"
#include "bench/harness/suite.h"
#include "machine/blas_probe.h"
#include "machine/core_count.h"
#include "machine/memory_bandwidth.h"
#include "machine/memory_size.h"

namespace weft::bench {
namespace {

using std::chrono::milliseconds;

Row fma_one_thread(FmaType type) {
  return measure(
      {.name = {},
       .unit = "GFLOP/s",
       .sample = [=] { return fma_gflops(type); },
       .limit_name = "lanes x 2 x 2 units x clock",
       .limit = [=] { return 1e-9 * two_unit_peak(type, sample_clock_rate(milliseconds(10))); }});
}

Row fma_threads(int num_threads) {
  return measure(
      {.name = {},
       .unit = "GFLOP/s",
       .sample =
           [=] { return 1e-9 * sample_fma_rate(FmaType::kFloat, num_threads, milliseconds(40)); },
       .limit_name = fmt::format("{} x one thread", num_threads),
       .limit = [=] { return num_threads * fma_gflops(); }});
}

MemoryBandwidth bandwidth_buffers() {
  const ReadSystemText read = system_text();
  return MemoryBandwidth(
      bandwidth_buffer_size(last_level_cache(read), read_memory_size(read).usable()));
}

Row memory_read() {
  MemoryBandwidth bandwidth = bandwidth_buffers();
  return measure(
      {.name = {}, .unit = "GB/s", .sample = [&] { return 1e-9 * bandwidth.sample_read(); }});
}

// A copy moves each byte twice, so half of the reading speed is what it may reach without stores
// that pass the caches by (memcpy uses them for large blocks: the share may exceed 1).
Row memory_copy() {
  MemoryBandwidth bandwidth = bandwidth_buffers();
  return measure({.name = {},
                  .unit = "GB/s",
                  .sample = [&] { return 1e-9 * bandwidth.sample_copy(); },
                  .limit_name = "half of reading",
                  .limit = [&] { return 0.5e-9 * bandwidth.sample_read(); }});
}

Row blas_product(FmaType type, int size) {
  const BlasProbe blas;
  WEFT_USER_CHECK(blas.loaded(), "no BLAS on this machine: {}", blas.info().error);
  return measure({.name = {},
                  .unit = "GFLOP/s",
                  .sample =
                      [&] {
                        return 1e-9 * (type == FmaType::kFloat ? blas.sample_sgemm(size)
                                                               : blas.sample_dgemm(size));
                      },
                  .limit_name = kFmaPeakName,
                  .limit = [=] { return fma_gflops(type); }});
}

int run(int argc, char** argv) {
  const Selection selection = parse_selection(argc, argv);
  Suite suite;
  suite.add("fma_peak/1thread", [] { return fma_one_thread(FmaType::kFloat); });
  suite.add("fma_peak/1thread-double", [] { return fma_one_thread(FmaType::kDouble); });
  const int cores = count_cores(system_text()).usable();
  if (cores > 1)
    suite.add(fmt::format("fma_peak/{}threads", cores), [=] { return fma_threads(cores); });
  suite.add("memory_read", memory_read);
  suite.add("memory_copy", memory_copy);
  for (const int size : {128, 512, 2048})
    suite.add(fmt::format("blas/sgemm-{}", size),
              [=] { return blas_product(FmaType::kFloat, size); });
  suite.add("blas/dgemm-1024", [] { return blas_product(FmaType::kDouble, 1024); });
  return suite.run(selection);
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) { return weft::bench::bench_main(argc, argv, weft::bench::run); }
