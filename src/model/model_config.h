// ModelConfig: the shape of a Llama-family decoder, and what follows from it by counting.
#pragma once

#include <cstdint>

#include "base/units.h"
#include "cost/recompute_mode.h"

namespace weft {

struct ModelConfig {
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t num_layers = 0;
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;       // divides num_heads
  std::int64_t head_dim = 0;           // even (rotary pairs)
  std::int64_t intermediate_size = 0;  // feed-forward
  double rope_theta = 10000;
  double rms_norm_eps = 1e-5;
  bool tie_word_embeddings = true;
  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

// Throws UserError that names the field, its value and what it must be.
void check_model_config(const ModelConfig& config);

LayerSizes layer_sizes(const ModelConfig& config);
std::int64_t num_parameters(const ModelConfig& config);
// Useful FLOPs of forward and backward: 6 per matrix weight and token (embedding look-up excluded,
// output head included), and 12 * head_dim * num_heads per layer and causal (query, key) pair.
// Recomputation is not counted.
Flops training_flops(const ModelConfig& config, Tokens tokens, std::int64_t causal_pairs);

}  // namespace weft
