#include "cost/model_shape.h"

#include <array>
#include <vector>

#include "base/error.h"
#include "base/suggest.h"

namespace weft {
namespace {

constexpr double kLseBytes = 4;  // log-sum-exp, a head and token
constexpr std::int64_t kMostLayers = 1 << 16;
constexpr std::int64_t kMostSize = 1 << 30;

double real(std::int64_t value) { return static_cast<double>(value); }

double feed_forward_weights(const ModelShape& model, std::int64_t num_experts) {
  const double gated = 3 * real(model.hidden_size);
  const double router =
      model.is_mixture() ? real(model.hidden_size) * real(model.num_experts) : 0.0;
  return gated *
             (real(num_experts) * real(model.intermediate_size) + real(model.shared_expert_size)) +
         router;
}

struct Field {
  const char* name;
  std::int64_t ModelShape::* value;
  std::int64_t least;
  std::int64_t most;
};
constexpr std::array<Field, 10> kFields{
    {{"num_layers", &ModelShape::num_layers, 1, kMostLayers},
     {"hidden_size", &ModelShape::hidden_size, 1, kMostSize},
     {"num_heads", &ModelShape::num_heads, 1, kMostSize},
     {"num_kv_heads", &ModelShape::num_kv_heads, 1, kMostSize},
     {"head_dim", &ModelShape::head_dim, 1, kMostSize},
     {"intermediate_size", &ModelShape::intermediate_size, 1, kMostSize},
     {"vocab_size", &ModelShape::vocab_size, 1, kMostSize},
     {"num_experts", &ModelShape::num_experts, 1, kMostLayers},
     {"experts_per_token", &ModelShape::experts_per_token, 1, kMostLayers},
     {"shared_expert_size", &ModelShape::shared_expert_size, 0, kMostSize}}};

// Layers, heads, KV groups and hidden size as ByteScale's Table 1 prints them; head size 128;
// feed-forward and vocabulary of the published model of that name, which the paper does not state.
std::vector<ModelShape> make_presets() {
  const std::string table = "ByteScale (arXiv 2502.21231) Table 1; feed-forward and vocabulary of ";
  const auto dense = [&](const char* name, std::int64_t layers, std::int64_t heads,
                         std::int64_t hidden, std::int64_t feed_forward, const char* model) {
    return ModelShape{.name = name,
                      .source = table + model,
                      .num_layers = layers,
                      .hidden_size = hidden,
                      .num_heads = heads,
                      .num_kv_heads = 8,
                      .head_dim = 128,
                      .intermediate_size = feed_forward,
                      .vocab_size = 32000};
  };
  std::vector<ModelShape> list{dense("llama-7b", 32, 32, 4096, 11008, "LLaMA-7B"),
                               dense("llama-13b", 40, 40, 5120, 13824, "LLaMA-13B"),
                               dense("llama-30b", 60, 56, 6656, 17920, "LLaMA-33B"),
                               dense("llama-70b", 80, 64, 8192, 28672, "Llama-2-70B"),
                               dense("mixtral-8x7b", 32, 32, 4096, 14336, "Mixtral-8x7B"),
                               dense("mixtral-8x22b", 56, 48, 6144, 16384, "Mixtral-8x22B")};
  for (ModelShape& model : list) {
    if (!model.name.starts_with("mixtral")) continue;
    model.num_experts = 8;
    model.experts_per_token = 2;
  }
  return list;
}

}  // namespace

void validate(const ModelShape& model, const std::string& where) {
  for (const Field& field : kFields) {
    WEFT_USER_CHECK(model.*field.value >= field.least && model.*field.value <= field.most,
                    "{}: {} is {}, expected {} to {}", where, field.name, model.*field.value,
                    field.least, field.most);
  }
  WEFT_USER_CHECK(model.num_heads % model.num_kv_heads == 0,
                  "{}: {} key/value heads must divide the {} heads", where, model.num_kv_heads,
                  model.num_heads);
  WEFT_USER_CHECK(model.experts_per_token <= model.num_experts,
                  "{}: a token passes {} of {} experts", where, model.experts_per_token,
                  model.num_experts);
}

double attention_weights(const ModelShape& model) {
  return 2 * real(model.hidden_size) * real(model.head_dim) *
         real(model.num_heads + model.num_kv_heads);
}

double expert_weights(const ModelShape& model) {
  if (!model.is_mixture()) return 0;
  return 3 * real(model.hidden_size) * real(model.experts_per_token) *
         real(model.intermediate_size);
}

double active_layer_weights(const ModelShape& model) {
  return attention_weights(model) + feed_forward_weights(model, model.experts_per_token);
}

double all_layer_weights(const ModelShape& model) {
  return attention_weights(model) + feed_forward_weights(model, model.num_experts) +
         2 * real(model.hidden_size);
}

double num_parameters(const ModelShape& model) {
  const double embedding = real(model.vocab_size) * real(model.hidden_size);
  return real(model.num_layers) * all_layer_weights(model) + real(model.hidden_size) +
         (model.tie_word_embeddings ? 1 : 2) * embedding;
}

double num_active_parameters(const ModelShape& model) {
  const double idle = feed_forward_weights(model, model.num_experts) -
                      feed_forward_weights(model, model.experts_per_token);
  return num_parameters(model) - real(model.num_layers) * idle;
}

double layer_flops_per_token(const ModelShape& model) { return 2 * active_layer_weights(model); }

double layer_flops_per_pair(const ModelShape& model) {
  return 4 * real(model.num_heads) * real(model.head_dim);
}

double head_flops_per_token(const ModelShape& model) {
  return 2 * real(model.hidden_size) * real(model.vocab_size);
}

double training_flops(const ModelShape& model, double tokens, double causal_pairs) {
  const double layers = real(model.num_layers);
  return 3 * (tokens * (layers * layer_flops_per_token(model) + head_flops_per_token(model)) +
              causal_pairs * layers * layer_flops_per_pair(model));
}

double kv_bytes_per_token(const ModelShape& model, double element_bytes) {
  return 2 * element_bytes * real(model.num_kv_heads) * real(model.head_dim);
}

double activation_bytes_per_token(const ModelShape& model, double element_bytes) {
  const double heads = real(model.num_heads) * real(model.head_dim);
  const double kv = real(model.num_kv_heads) * real(model.head_dim);
  const double feed_forward = real(model.experts_per_token) * real(model.intermediate_size) +
                              real(model.shared_expert_size);
  // Input and output of both norms; q, k, v, attention's output; gate, up and their product.
  const double elements = 4 * real(model.hidden_size) + 2 * heads + 2 * kv + 3 * feed_forward;
  return element_bytes * elements + kLseBytes * real(model.num_heads);
}

std::span<const ModelShape> model_presets() {
  static const std::vector<ModelShape> kPresets = make_presets();
  return kPresets;
}

ModelShape find_model(const std::string& name_or_path) {
  std::vector<std::string> names;
  for (const ModelShape& model : model_presets()) {
    if (model.name == name_or_path) return model;
    names.push_back(model.name);
  }
  std::filesystem::path path = name_or_path;
  if (std::filesystem::is_directory(path)) path /= "config.json";
  if (name_or_path.find('/') != std::string::npos || std::filesystem::exists(path))
    return read_hf_config(path);
  const auto nearest = nearest_name(name_or_path, names);
  throw_user_error("model '{}' is neither a preset ({}) nor a config.json or its folder{}",
                   name_or_path, fmt::join(names, ", "),
                   nearest ? fmt::format("; did you mean '{}'?", *nearest) : "");
}

}  // namespace weft
