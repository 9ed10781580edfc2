#include "model/model_config.h"

#include <cmath>
#include <limits>
#include <string_view>

#include "base/error.h"

namespace weft {
namespace {

using Wide = __int128;

void check_positive(std::string_view field, std::int64_t value) {
  WEFT_USER_CHECK(value > 0, "model.{}: expected a positive number, got {}", field, value);
}

// Weights of the matrices that every token is multiplied with: projections, feed-forward and output
// head.
Wide matrix_weights(const ModelConfig& config) {
  const Wide attention =
      Wide{2} * config.hidden_size * config.head_dim * (config.num_heads + config.num_kv_heads);
  const Wide feed_forward = Wide{3} * config.hidden_size * config.intermediate_size;
  const Wide head = Wide{config.vocab_size} * config.hidden_size;
  return config.num_layers * (attention + feed_forward) + head;
}

std::int64_t narrow(Wide value, std::string_view what) {
  WEFT_USER_CHECK(value <= std::numeric_limits<std::int64_t>::max(),
                  "model: {} exceeds 2^63; expected a smaller model or fewer tokens", what);
  return static_cast<std::int64_t>(value);
}

}  // namespace

void check_model_config(const ModelConfig& config) {
  check_positive("vocab_size", config.vocab_size);
  check_positive("hidden_size", config.hidden_size);
  check_positive("num_layers", config.num_layers);
  check_positive("num_heads", config.num_heads);
  check_positive("num_kv_heads", config.num_kv_heads);
  check_positive("head_dim", config.head_dim);
  check_positive("intermediate_size", config.intermediate_size);
  WEFT_USER_CHECK(config.num_heads % config.num_kv_heads == 0,
                  "model.num_kv_heads: expected a divisor of num_heads = {}, got {}",
                  config.num_heads, config.num_kv_heads);
  WEFT_USER_CHECK(config.head_dim % 2 == 0,
                  "model.head_dim: expected an even number (rotary pairs), got {}",
                  config.head_dim);
  WEFT_USER_CHECK(std::isfinite(config.rope_theta) && config.rope_theta > 0,
                  "model.rope_theta: expected a positive number, got {}", config.rope_theta);
  WEFT_USER_CHECK(std::isfinite(config.rms_norm_eps) && config.rms_norm_eps > 0,
                  "model.rms_norm_eps: expected a positive number, got {}", config.rms_norm_eps);
}

LayerSizes layer_sizes(const ModelConfig& config) {
  return {.hidden_size = config.hidden_size,
          .num_heads = config.num_heads,
          .num_kv_heads = config.num_kv_heads,
          .head_dim = config.head_dim,
          .intermediate_size = config.intermediate_size};
}

std::int64_t num_parameters(const ModelConfig& config) {
  const Wide norms = (Wide{2} * config.num_layers + 1) * config.hidden_size;
  const Wide embedding =
      config.tie_word_embeddings ? Wide{0} : Wide{config.vocab_size} * config.hidden_size;
  return narrow(matrix_weights(config) + norms + embedding, "the number of parameters");
}

Flops training_flops(const ModelConfig& config, Tokens tokens, std::int64_t causal_pairs) {
  const Wide matrices = Wide{6} * matrix_weights(config) * tokens.value();
  const Wide attention =
      Wide{12} * config.head_dim * config.num_heads * config.num_layers * causal_pairs;
  return Flops(narrow(matrices + attention, "the number of FLOPs"));
}

}  // namespace weft
