#include "train/compute_rate.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace weft {
namespace {

// Fixed rates of one CPU rank in fp32, read off 2-core AVX2 machines (docs/results.md). Only their
// ratios shape a plan; halve them all and every plan stays the same.
constexpr double kLinearFlopsPerSecond = 45e9;     // matrix products of the layers
constexpr double kAttentionFlopsPerSecond = 20e9;  // blocked attention kernel
constexpr double kExchangeBytesPerSecond =
    4e9;                              // one memcpy between threads, or MPI over shared memory
constexpr double kHopFixedNs = 20e3;  // posting and waking, ranks sharing cores
constexpr double kMicroBatchFixedNs = 60e3;  // per layer: kernel launches and small tensors

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
  const auto cores = static_cast<std::int32_t>(std::max(1u, std::thread::hardware_concurrency()));
  const std::int32_t used = std::min(cores, num_ranks * threads_per_rank);
  return {.flops_per_s = used * one_core,
          .source = fmt::format(
              "{} cores x {:.1f} GFLOP/s, measured: {} {}^3 matrix product on one thread", used,
              one_core * 1e-9, dtype_name(dtype), kSize)};
}

CostModel estimated_cpu_cost(const ModelConfig& config, at::ScalarType dtype) {
  const double width = dtype == at::kDouble ? 2 : 1;  // fp64: half the lanes, twice the bytes
  const std::int64_t attention_size = config.num_heads * config.head_dim;
  const std::int64_t kv_size = config.num_kv_heads * config.head_dim;
  const double layer_weights =
      static_cast<double>(config.hidden_size) *
      static_cast<double>(2 * attention_size + 2 * kv_size + 3 * config.intermediate_size);
  // The head runs once per token, not once per layer: spread it over the layers.
  const double head_weights = static_cast<double>(config.vocab_size * config.hidden_size) /
                              static_cast<double>(std::max<std::int64_t>(config.num_layers, 1));
  CostModel cost;
  cost.name = "estimated-cpu";
  cost.source = "counted from the model's shape at fixed CPU rates";
  cost.num_layers = static_cast<std::int32_t>(config.num_layers);
  cost.linear_ns_per_token =
      2 * (layer_weights + head_weights) * width / kLinearFlopsPerSecond * 1e9;
  cost.attention_ns_per_pair =
      4.0 * static_cast<double>(attention_size) * width / kAttentionFlopsPerSecond * 1e9;
  cost.fixed_ns = kMicroBatchFixedNs;
  cost.hop_ns_per_token =
      2.0 * static_cast<double>(kv_size) * 4 * width / kExchangeBytesPerSecond * 1e9;
  cost.hop_fixed_ns = kHopFixedNs;
  cost.backward_ratio = 2;
  return cost;
}

}  // namespace weft
