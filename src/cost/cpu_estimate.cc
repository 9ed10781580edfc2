#include "cost/cpu_estimate.h"

#include "base/error.h"

namespace weft {
namespace {

// Rates of one CPU rank in fp32, read off 2-core AVX2 machines (docs/results.md). Only their ratios
// shape a plan; halve them all and every plan stays the same.
constexpr double kLinearFlopsPerSecond = 80e9;     // matrix products of the layers
constexpr double kAttentionFlopsPerSecond = 60e9;  // blocked attention kernel, causal FLOPs
constexpr double kExchangeBytesPerSecond = 4e9;    // one copy between threads or over shared memory
constexpr double kHopFixedNs = 20e3;               // posting and waking, ranks sharing cores
constexpr double kMicroBatchFixedNs = 60e3;        // per layer: small tensors, many calls
constexpr double kFp32Bytes = 4;

}  // namespace

CostModel estimate_cpu_cost(const DecoderShape& shape) {
  WEFT_CHECK(shape.num_layers >= 1, "a decoder of {} layers has no time", shape.num_layers);
  const auto real = [](std::int64_t size) { return static_cast<double>(size); };
  // fp64 has half the lanes of fp32, and twice the bytes.
  const double width = real(shape.element_bytes) / kFp32Bytes;
  const double layer_weights =
      real(shape.hidden_size) *
      (2 * real(shape.query_size) + 2 * real(shape.kv_size) + 3 * real(shape.intermediate_size));
  // The head runs once per token, not once per layer: spread it over the layers.
  const double head_weights =
      real(shape.vocab_size) * real(shape.hidden_size) / real(shape.num_layers);
  CostModel cost;
  cost.name = "estimated-cpu";
  cost.source = "counted from the model's shape at fixed CPU rates";
  cost.num_layers = static_cast<std::int32_t>(shape.num_layers);
  cost.linear_ns_per_token =
      2 * (layer_weights + head_weights) * width / kLinearFlopsPerSecond * 1e9;
  cost.attention_ns_per_pair = 4 * real(shape.query_size) * width / kAttentionFlopsPerSecond * 1e9;
  cost.fixed_ns = kMicroBatchFixedNs;
  cost.hop_ns_per_token =
      2 * real(shape.kv_size) * real(shape.element_bytes) / kExchangeBytesPerSecond * 1e9;
  cost.hop_fixed_ns = kHopFixedNs;
  cost.backward_ratio = 2;
  cost.kv_bytes_per_token = 2 * real(shape.kv_size) * real(shape.element_bytes);
  return cost;
}

}  // namespace weft
