// Recompute: what a layer's forward throws away and its backward computes again, and how many bytes
// are then kept (ByteScale 6.1 measures full recompute beside offload).
//
// The same operations run again on the same bits, so gradients do not change by one bit; all that
// changes is memory and time. Attention recompute runs the group's ring a third time: every rank of
// a run must use the same mode.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "memory/saved_layer.h"

namespace weft {

enum class Recompute {
  kNone,       // everything a SavedLayer holds is kept
  kAttention,  // q, k, v and attention's output
  kFull,       // all but the layer's input
};
inline constexpr std::array<std::string_view, 3> kRecomputeNames = {"none", "attention", "full"};
Recompute parse_recompute(std::string_view name);  // UserError with the names

// Frees what `recompute` computes again.
void drop_recomputed(Recompute recompute, SavedLayer& saved);

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
