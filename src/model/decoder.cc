#include "model/decoder.h"

#include <utility>
#include <vector>

#include "base/error.h"
#include "memory/activation_store.h"
#include "model/cross_entropy.h"
#include "model/decoder_layer.h"

namespace weft {
namespace {

// Rows that have logits at a time: at a vocabulary of 128 Ki in fp32, half a GiB.
inline constexpr std::int64_t kLossChunkRows = 1024;

at::Tensor head_part(const ParameterSet& parameters, const ModelConfig& config, bool gradient) {
  const std::size_t index = parameters.index_of(
      config.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight");
  return gradient ? parameters.gradient(index) : parameters.value(index);
}

void check_batch(const ModelConfig& config, const PackedMicroBatch& batch,
                 const AttentionLayout& layout) {
  WEFT_CHECK_EQ(batch.tokens.size(0), layout.num_rows, "rows of the micro-batch and its layout");
  if (batch.tokens.size(0) == 0) return;
  for (const at::Tensor* ids : {&batch.tokens, &batch.targets}) {
    const std::int64_t largest = ids->max().item<std::int64_t>();
    WEFT_USER_CHECK(
        largest < config.vocab_size,
        "model: token {} does not exist in a vocabulary of {}; set model.vocab_size to the "
        "tokenizer's, at least {}",
        largest, config.vocab_size, largest + 1);
  }
}

}  // namespace

// What a forward keeps: layer by layer, then what stands above the layers.
class ForwardState {
 public:
  ForwardState(std::int64_t num_layers, const Offload& offload) : layers(num_layers, offload) {}

  RotaryTable rotary;
  ActivationStore layers;
  at::Tensor final_input;  // [T, E] before the final norm
  at::Tensor final_rstd;   // [T, 1]
  SavedLoss loss;
};

struct Decoder::Parts {
  Parts(const ModelConfig& model_config, ParameterSet& parameters,
        const AttentionKernel& attention_kernel, Recompute recompute_mode)
      : config(model_config),
        kernel(attention_kernel),
        recompute(recompute_mode),
        dtype(parameters.flat_values().scalar_type()),
        embedding(parameters.value(parameters.index_of("model.embed_tokens.weight"))),
        d_embedding(parameters.gradient(parameters.index_of("model.embed_tokens.weight"))),
        final_norm(parameters.value(parameters.index_of("model.norm.weight")),
                   parameters.gradient(parameters.index_of("model.norm.weight")),
                   model_config.rms_norm_eps),
        head(head_part(parameters, config, false), head_part(parameters, config, true),
             kLossChunkRows) {
    for (std::int64_t i = 0; i < config.num_layers; ++i) layers.emplace_back(config, parameters, i);
  }

  RotaryTable rotary_table(const PackedMicroBatch& batch) const {
    return make_rotary_table(batch.positions, config.head_dim, config.rope_theta, dtype);
  }

  ModelConfig config;
  const AttentionKernel& kernel;
  Recompute recompute;
  at::ScalarType dtype;
  at::Tensor embedding;    // [V, E]
  at::Tensor d_embedding;  // [V, E]
  std::vector<DecoderLayer> layers;
  RmsNorm final_norm;
  CrossEntropyHead head;
};

ForwardResult::ForwardResult() = default;
ForwardResult::~ForwardResult() = default;
ForwardResult::ForwardResult(ForwardResult&&) noexcept = default;
ForwardResult& ForwardResult::operator=(ForwardResult&&) noexcept = default;

Decoder::Decoder(const ModelConfig& config, ParameterSet& parameters, const AttentionKernel& kernel,
                 Recompute recompute)
    : parts_(std::make_unique<Parts>(config, parameters, kernel, recompute)) {}
Decoder::~Decoder() = default;

ForwardResult Decoder::forward(const PackedMicroBatch& batch, const AttentionLayout& layout,
                               RingContext ring, const Offload& offload) const {
  check_batch(parts_->config, batch, layout);
  ForwardResult result;
  result.state = std::make_unique<ForwardState>(parts_->config.num_layers, offload);
  ForwardState& state = *result.state;
  state.rotary = parts_->rotary_table(batch);
  const LayerContext context{parts_->kernel, layout, state.rotary, ring};
  at::Tensor x = parts_->embedding.index_select(0, batch.tokens);  // [T, E]
  for (std::size_t i = 0; i < parts_->layers.size(); ++i) {
    SavedLayer saved;
    x = parts_->layers[i].forward(x, context, saved);
    drop_recomputed(parts_->recompute, saved);
    state.layers.put(static_cast<std::int64_t>(i), std::move(saved));
  }
  state.final_input = x;
  state.final_rstd = parts_->final_norm.reciprocal_rms(x);
  result.loss =
      parts_->head.forward(parts_->final_norm.forward(x, state.final_rstd), batch, state.loss);
  return result;
}

void Decoder::backward(ForwardResult&& result, const PackedMicroBatch& batch,
                       const AttentionLayout& layout, RingContext ring) {
  WEFT_CHECK(result.state != nullptr, "backward needs what forward left, and only once");
  const std::unique_ptr<ForwardState> state = std::move(result.state);
  const LayerContext context{parts_->kernel, layout, state->rotary, ring};
  const at::Tensor hidden = parts_->final_norm.forward(state->final_input, state->final_rstd);
  const at::Tensor d_hidden = parts_->head.backward(hidden, state->loss);  // [T, E]
  parts_->final_norm.backward_weight(state->final_input, state->final_rstd, d_hidden);
  at::Tensor d_x =
      parts_->final_norm.backward_input(state->final_input, state->final_rstd, d_hidden);
  state->final_input.reset();
  for (std::size_t i = parts_->layers.size(); i-- > 0;) {
    SavedLayer saved = state->layers.take(static_cast<std::int64_t>(i));
    parts_->layers[i].restore(parts_->recompute, context, saved);
    LayerDeltas deltas;
    d_x = parts_->layers[i].backward_input(d_x, context, saved, deltas);
    parts_->layers[i].backward_weight(saved, deltas);
  }
  parts_->d_embedding.index_add_(0, batch.tokens, d_x);
}

at::Tensor Decoder::logits(const PackedMicroBatch& batch, const AttentionLayout& layout,
                           RingContext ring) const {
  check_batch(parts_->config, batch, layout);
  const RotaryTable rotary = parts_->rotary_table(batch);
  const LayerContext context{parts_->kernel, layout, rotary, ring};
  at::Tensor x = parts_->embedding.index_select(0, batch.tokens);  // [T, E]
  for (const DecoderLayer& layer : parts_->layers) {
    SavedLayer dropped;
    x = layer.forward(x, context, dropped);
  }
  return parts_->head.logits(parts_->final_norm.forward(x, parts_->final_norm.reciprocal_rms(x)));
}

}  // namespace weft
