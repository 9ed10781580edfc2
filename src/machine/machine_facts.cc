#include "machine/machine_facts.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "machine/memory_bandwidth.h"

namespace weft {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr int kSamples = 5;
constexpr milliseconds kSampleTime{30};
constexpr std::chrono::seconds kPartLimit{2};  // for parts whose speed is what is being asked

ComputeFacts measure_compute(const CoreCount& cores) {
  ComputeFacts facts;
  facts.simd = simd_level();
  facts.num_threads = cores.usable();
  // Alternately, so that another program's burst does not hit one of them alone.
  for (int i = 0; i < kSamples; ++i) {
    const auto best = [](double& so_far, double sample) { so_far = std::max(so_far, sample); };
    best(facts.clock_rate, sample_clock_rate(milliseconds(10)));
    best(facts.float_one, sample_fma_rate(FmaType::kFloat, 1, kSampleTime));
    best(facts.double_one, sample_fma_rate(FmaType::kDouble, 1, kSampleTime));
    best(facts.float_all, sample_fma_rate(FmaType::kFloat, facts.num_threads, kSampleTime));
  }
  return facts;
}

void measure_bandwidth(const ReadSystemText& read, const MemorySize& memory, ComputeFacts& facts) {
  MemoryBandwidth bandwidth(bandwidth_buffer_size(last_level_cache(read), memory.usable()));
  facts.bandwidth_buffer = bandwidth.size();
  const auto start = Clock::now();
  for (int i = 0; i < kSamples && Clock::now() - start < kPartLimit; ++i) {
    facts.read_rate = std::max(facts.read_rate, bandwidth.sample_read());
    facts.copy_rate = std::max(facts.copy_rate, bandwidth.sample_copy());
  }
}

BlasFacts measure_blas() {
  constexpr int kSize = 768;
  BlasFacts facts;
  const BlasProbe blas;
  facts.info = blas.info();
  if (!blas.loaded()) return facts;
  double float_peak = 0;
  double double_peak = 0;
  const auto start = Clock::now();
  for (int i = 0; i < kSamples && Clock::now() - start < kPartLimit; ++i) {
    float_peak = std::max(float_peak, sample_fma_rate(FmaType::kFloat, 1, kSampleTime));
    facts.sgemm = std::max(facts.sgemm, blas.sample_sgemm(kSize));
    double_peak = std::max(double_peak, sample_fma_rate(FmaType::kDouble, 1, kSampleTime));
    facts.dgemm = std::max(facts.dgemm, blas.sample_dgemm(kSize));
  }
  facts.sgemm_share = facts.sgemm / float_peak;
  facts.dgemm_share = facts.dgemm / double_peak;
  return facts;
}

}  // namespace

MachineFacts measure_machine(const MeasureOptions& options) {
  const ReadSystemText read = system_text();
  MachineFacts facts;
  facts.build_id = options.build_id;
  facts.out = options.out;
  const std::filesystem::path folder = nearest_existing(options.out);

  using Part = std::pair<std::string_view, std::function<void()>>;
  const std::array parts{
      Part{"cores and memory",
           [&] {
             facts.cores = count_cores(read);
             facts.memory = read_memory_size(read);
             facts.shared_memory = file_system_space("/dev/shm");
             facts.out_space = file_system_space(folder);
           }},
      Part{"multiply-add peak", [&] { facts.compute = measure_compute(facts.cores); }},
      Part{"memory bandwidth", [&] { measure_bandwidth(read, facts.memory, facts.compute); }},
      Part{"BLAS",
           [&] {
             facts.blas = measure_blas();
             facts.blas.core_override = options.blas_core_override;
           }},
      Part{"disk", [&] { facts.out_speed = measure_disk_speed(folder, 64_MiB, kPartLimit); }},
      Part{"MPI", [&] { facts.mpi = find_mpi(options.search_path); }},
      Part{"weft-engine", [&] { facts.engine = find_engine(options.program_folder); }},
  };
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (options.on_part)
      options.on_part(parts[i].first, static_cast<int>(i), static_cast<int>(parts.size()));
    parts[i].second();
  }
  return facts;
}

}  // namespace weft
