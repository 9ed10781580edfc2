#include "cost/reference_cost.h"

namespace weft {
namespace {

constexpr double kTokensPerShare = 8192;     // the case study's capacity C
constexpr double kLinearNsPerShare = 9.5e6;  // Fig. 18: linear part of one layer's forward, 9-10 ms
constexpr double kAttentionNsPerBlock = 2.8e6;  // Fig. 18: one full 8192 x 8192 ring block
constexpr double kHopNsPerShare = 1.6e6;        // Fig. 18: K and V of 8192 tokens, 1.4-1.9 ms
constexpr double kHopFixedNs = 20e3;
constexpr double kFixedNs = 200e3;
constexpr double kBackwardRatio = 2.5;  // Fig. 18: 2.4-2.6

}  // namespace

CostModel reference_cost_7b() {
  return {.name = "reference-7b",
          .source =
              "ByteScale (arXiv 2502.21231) section 8.3, Fig. 18: LLaMA-7B, tensor parallelism 2, "
              "8192 tokens per rank; inferred, see docs/cost.md",
          .num_layers = 32,
          .attention_ns_per_pair = kAttentionNsPerBlock / (kTokensPerShare * kTokensPerShare),
          .linear_ns_per_token = kLinearNsPerShare / kTokensPerShare,
          .fixed_ns = kFixedNs,
          .hop_ns_per_token = kHopNsPerShare / kTokensPerShare,
          .hop_fixed_ns = kHopFixedNs,
          .backward_ratio = kBackwardRatio};
}

}  // namespace weft
