// The probes on this machine: that they compute what they claim to time, and that physics holds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <numeric>
#include <vector>

#include "machine/blas_probe.h"
#include "machine/disk_probe.h"
#include "machine/fma_peak.h"
#include "machine/memory_bandwidth.h"
#include "machine/read_kernel.h"

namespace weft {
namespace {

using std::chrono::milliseconds;

// The recurrence on one lane, in plain code.
template <class T>
double plain_mean(std::int64_t steps, T x, T y) {
  double sum = 0;
  for (int k = 0; k < kFmaAccumulators; ++k) {
    T a = static_cast<T>(k) * y;
    for (std::int64_t i = 0; i < steps; ++i) a = std::fma(a, x, y);
    sum += static_cast<double>(a);
  }
  return sum / kFmaAccumulators;
}

TEST(FmaKernel, EveryLaneOfEveryAccumulatorRunsTheRecurrence) {
  for (const std::int64_t steps : {0, 1, 2, 3, 17, 100}) {
    EXPECT_NEAR(run_fma_float(steps, 0.75F, 0.5F).value, plain_mean(steps, 0.75F, 0.5F), 1e-5)
        << steps;
    EXPECT_NEAR(run_fma_double(steps, 0.75, 0.5).value, plain_mean(steps, 0.75, 0.5), 1e-12)
        << steps;
  }
}

TEST(FmaKernel, FlopsAreTwoPerLaneOfEachMultiplyAdd) {
  const SimdLevel level = simd_level();
  EXPECT_EQ(run_fma_float(10, 0.5F, 0.5F).flops, 10.0 * kFmaAccumulators * level.float_lanes * 2);
  EXPECT_EQ(run_fma_double(10, 0.5, 0.5).flops, 10.0 * kFmaAccumulators * level.double_lanes * 2);
  EXPECT_EQ(level.float_lanes, 2 * level.double_lanes) << level.name;
}

// No core has more than two FMA units of the widest kind per cycle (four narrow ones count as two
// wide). A loop that the compiler shortened would be far above. Generous: both clocks are noisy.
TEST(FmaPeak, IsNotAboveWhatTheLanesAndTheClockAllow) {
  double clock_rate = 0;
  double rate = 0;
  for (int i = 0; i < 10; ++i) {
    clock_rate = std::max(clock_rate, sample_clock_rate(milliseconds(2)));
    rate = std::max(rate, sample_fma_rate(FmaType::kFloat, 1, milliseconds(2)));
  }
  EXPECT_LT(rate, 2.5 * two_unit_peak(FmaType::kFloat, clock_rate));
  EXPECT_GT(rate, 0.02 * two_unit_peak(FmaType::kFloat, clock_rate));
}

TEST(FmaPeak, TwoUnitsOfEveryLaneMakeThePeak) {
  const SimdLevel level = simd_level();
  EXPECT_DOUBLE_EQ(two_unit_peak(FmaType::kFloat, 1e9), 4e9 * level.float_lanes);
  EXPECT_DOUBLE_EQ(two_unit_peak(FmaType::kDouble, 1e9), 4e9 * level.double_lanes);
}

TEST(FmaPeak, ThreadsAreCountedTogether) {
  for (const int threads : {1, 2, 3}) {
    const FmaPeak peak = measure_fma_peak(FmaType::kDouble, threads, 2, milliseconds(2));
    EXPECT_EQ(peak.num_threads, threads);
    EXPECT_GT(peak.flops_per_s, 0);
  }
}

TEST(ReadKernel, SumsEveryWordOnce) {
  for (const std::size_t count : {0, 1, 2, 7, 31, 32, 33, 63, 64, 65, 1000}) {
    std::vector<std::uint64_t> words(count);
    std::iota(words.begin(), words.end(), 1);
    EXPECT_EQ(sum_words(words.data(), count), count * (count + 1) / 2) << count;
  }
}

TEST(MemoryBandwidth, BuffersAreFarPastTheCacheButNeverMostOfTheMemory) {
  EXPECT_EQ(bandwidth_buffer_size(Bytes(0), 8192_MiB), 64_MiB);
  EXPECT_EQ(bandwidth_buffer_size(32_MiB, 8192_MiB), 128_MiB);
  EXPECT_EQ(bandwidth_buffer_size(512_MiB, 65536_MiB), 1024_MiB);
  EXPECT_EQ(bandwidth_buffer_size(512_MiB, 160_MiB), 10_MiB);
  EXPECT_EQ(bandwidth_buffer_size(512_MiB, Bytes(0)), 1_MiB);
}

TEST(MemoryBandwidth, ReadsAndCopiesAtSomeRate) {
  MemoryBandwidth bandwidth(1_MiB);
  EXPECT_EQ(bandwidth.size(), 1_MiB);
  EXPECT_GT(bandwidth.sample_read(), 0);
  EXPECT_GT(bandwidth.sample_copy(), 0);
}

TEST(DiskProbe, WritesAsMuchAsAskedAndLeavesNothing) {
  std::string name = (std::filesystem::temp_directory_path() / "weft_disk_XXXXXX").string();
  const std::filesystem::path folder = ::mkdtemp(name.data());
  const DiskSpeed speed = measure_disk_speed(folder, 5_MiB, std::chrono::seconds(60));
  EXPECT_EQ(speed.error, "");
  EXPECT_EQ(speed.written, 5_MiB);
  EXPECT_GT(speed.write_bytes_per_s, 0);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::filesystem::remove(folder);
}

TEST(DiskProbe, AFolderThatCannotBeWrittenSaysWhy) {
  const DiskSpeed speed = measure_disk_speed("/proc", 1_MiB, std::chrono::seconds(1));
  EXPECT_THAT(speed.error, ::testing::HasSubstr("cannot make a file"));
}

TEST(DiskProbe, AFolderYetToBeMadeIsLookedAtWhereItWouldBe) {
  EXPECT_EQ(nearest_existing("/proc/self/absent/more"), "/proc/self");
  EXPECT_EQ(nearest_existing("/absent/more"), "/");
  EXPECT_EQ(nearest_existing("/proc"), "/proc");
  EXPECT_EQ(file_system_space("/absent"), std::nullopt);
  EXPECT_GT(file_system_space("/").value().size, Bytes(0));
}

TEST(BlasProbe, FlavoursAreKnownByTheirPaths) {
  const std::string lib = "/usr/lib/x86_64-linux-gnu/";
  EXPECT_EQ(flavour_of_path(lib + "openblas-pthread/libblas.so.3"), BlasFlavour::kOpenBlas);
  EXPECT_EQ(flavour_of_path(lib + "openblas-openmp/libblas.so.3"), BlasFlavour::kOpenBlas);
  EXPECT_EQ(flavour_of_path(lib + "blas/libblas.so.3.11.0"), BlasFlavour::kReference);
  EXPECT_EQ(flavour_of_path(lib + "atlas/libblas.so.3.10.3"), BlasFlavour::kAtlas);
  EXPECT_EQ(flavour_of_path(lib + "blis-openmp/libblas.so.4"), BlasFlavour::kBlis);
  EXPECT_EQ(flavour_of_path("/opt/intel/oneapi/mkl/lib/libmkl_rt.so.2"), BlasFlavour::kMkl);
  EXPECT_EQ(flavour_of_path("/opt/other/libfast.so"), BlasFlavour::kUnknown);
  EXPECT_EQ(flavour_of_path(""), BlasFlavour::kNone);
}

TEST(BlasProbe, ALibraryThatIsNotThereIsNoBlas) {
  const BlasProbe blas("libno-such-blas.so.3");
  EXPECT_FALSE(blas.loaded());
  EXPECT_EQ(blas.info().flavour, BlasFlavour::kNone);
  EXPECT_THAT(blas.info().error, ::testing::HasSubstr("libno-such-blas"));
}

TEST(BlasProbe, ALibraryWithoutProductsIsNoBlas) {
  const BlasProbe blas("libm.so.6");
  EXPECT_FALSE(blas.loaded());
  EXPECT_THAT(blas.info().error, ::testing::HasSubstr("sgemm_"));
}

TEST(BlasProbe, TheLoadedOneMultipliesRightly) {
  const BlasProbe blas;
  if (!blas.loaded()) GTEST_SKIP() << blas.info().error;
  EXPECT_NE(blas.info().flavour, BlasFlavour::kNone);
  for (const int size : {1, 2, 63, 64, 65}) {
    EXPECT_GT(blas.sample_sgemm(size), 0);  // throws when the product is wrong
    EXPECT_GT(blas.sample_dgemm(size), 0);
  }
}

}  // namespace
}  // namespace weft
