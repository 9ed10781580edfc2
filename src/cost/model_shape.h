// ModelShape: what a decoder's configuration says about its cost, and what follows by counting.
//
// All counts are exact and of the whole model; bytes are those of 16-bit elements unless the caller
// says otherwise. Forward FLOPs count 2 per multiply-add; a matrix weight costs 2 a token, one
// causal (query, key) pair 4 * num_heads * head_dim a layer. Shapes come from a preset (ByteScale
// Table 1) or a Hugging Face config.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace weft {

struct ModelShape {
  std::string name;
  std::string source;
  std::int64_t num_layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t intermediate_size = 0;  // of one feed-forward block, or of one expert
  std::int64_t vocab_size = 0;
  std::int64_t num_experts = 1;         // 1: no mixture
  std::int64_t experts_per_token = 1;   // that a token passes
  std::int64_t shared_expert_size = 0;  // intermediate size of what every token also passes
  bool tie_word_embeddings = false;
  friend bool operator==(const ModelShape&, const ModelShape&) = default;

  bool is_mixture() const { return num_experts > 1; }
};

// UserError that begins with `where` and names the field.
void validate(const ModelShape& model, const std::string& where);

// Weights. A layer's matrices that one token is multiplied with: projections, feed-forward of the
// experts it passes, router.
double attention_weights(const ModelShape& model);      // of a layer
double expert_weights(const ModelShape& model);         // of a layer, that a token passes
double active_layer_weights(const ModelShape& model);   // of a layer
double all_layer_weights(const ModelShape& model);      // of a layer, all experts and norms
double num_parameters(const ModelShape& model);         // of the model
double num_active_parameters(const ModelShape& model);  // of the model, embedding included

double layer_flops_per_token(const ModelShape& model);  // forward, without attention
double layer_flops_per_pair(const ModelShape& model);   // forward, one causal pair
double head_flops_per_token(const ModelShape& model);   // forward, vocabulary head, whole model
// Forward and backward of a step (3 times the forward), as MFU counts it; nothing recomputed.
double training_flops(const ModelShape& model, double tokens, double causal_pairs);

double kv_bytes_per_token(const ModelShape& model, double element_bytes = 2);  // K, V; a layer
// What a layer keeps of a token between forward and backward, nothing recomputed: inputs of both
// norms and of every matrix, q, k, v, attention's output and log-sum-exp, and both halves and the
// product of the gated feed-forward.
double activation_bytes_per_token(const ModelShape& model, double element_bytes = 2);

// ByteScale's six, in the order of its Fig. 17: llama-7b, llama-13b, llama-30b, llama-70b,
// mixtral-8x7b, mixtral-8x22b.
std::span<const ModelShape> model_presets();

// A preset's name, or the path of a config.json or of the folder that holds one. UserError with the
// nearest preset for neither.
ModelShape find_model(const std::string& name_or_path);

// Hugging Face config.json of llama, mistral, mixtral, qwen2, qwen3, qwen2_moe or qwen3_moe. Keys
// that do not change the cost are ignored, as such files hold many.
ModelShape read_hf_config(const std::filesystem::path& path);

}  // namespace weft
