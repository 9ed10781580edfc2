// Recompute modes: what a layer's forward throws away and its backward computes again, and how much
// is then kept (ByteScale 6.1 measures full recompute beside offload). Arithmetic alone: the
// tensors are in memory/.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace weft {

enum class Recompute {
  kNone,       // everything a SavedLayer holds is kept
  kAttention,  // q, k, v and attention's output
  kFull,       // all but the layer's input
};
inline constexpr std::array<std::string_view, 3> kRecomputeNames = {"none", "attention", "full"};
Recompute parse_recompute(std::string_view name);  // UserError with the names

// Sizes in elements; see ModelConfig.
struct LayerSizes {
  std::int64_t hidden_size = 1;
  std::int64_t num_heads = 1;
  std::int64_t num_kv_heads = 1;
  std::int64_t head_dim = 1;
  std::int64_t intermediate_size = 1;
};
// What one token leaves in one layer between forward and backward, in elements of the run's dtype.
std::int64_t saved_elements_per_token(const LayerSizes& sizes, Recompute recompute);

}  // namespace weft
