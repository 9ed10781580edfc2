#include "model/decoder.h"

#include <utility>
#include <vector>

#include "base/error.h"
#include "cost/memory_model.h"
#include "memory/activation_store.h"
#include "model/cross_entropy.h"
#include "model/decoder_layer.h"

namespace weft {
namespace {

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
  at::Tensor d_hidden;     // [T, E] gradient of the head's input
};

struct Decoder::Parts {
  Parts(const ModelConfig& model_config, ParameterSet& parameters,
        const AttentionKernel& attention_kernel, DecoderOptions decoder_options)
      : config(model_config),
        kernel(attention_kernel),
        options(decoder_options),
        dtype(parameters.flat_values().scalar_type()),
        embedding(parameters.value(parameters.index_of("model.embed_tokens.weight"))),
        d_embedding(parameters.gradient(parameters.index_of("model.embed_tokens.weight"))),
        final_norm(parameters.value(parameters.index_of("model.norm.weight")),
                   parameters.gradient(parameters.index_of("model.norm.weight")),
                   model_config.rms_norm_eps, {options.trace, "norm"}),
        head(head_part(parameters, config, false), head_part(parameters, config, true),
             loss_chunk_rows(config.vocab_size, parameters.flat_values().element_size()),
             options.trace) {
    for (std::int64_t i = 0; i < config.num_layers; ++i) {
      layers.emplace_back(config, parameters, i, options.trace);
    }
  }

  RotaryTable rotary_table(const PackedMicroBatch& batch) const {
    return make_rotary_table(batch.positions, config.head_dim, config.rope_theta, dtype);
  }

  OperationScope embedding_scope(std::string_view pass) const {
    return {{options.trace, "embed_tokens"}, OperationKind::kElementwise, pass};
  }

  // [T, E]
  at::Tensor embed(const PackedMicroBatch& batch) const {
    const OperationScope scope = embedding_scope("forward");
    return embedding.index_select(0, batch.tokens);
  }

  // From the gradient of the head's input to that of the last layer's output [T, E]; frees what was
  // saved above the layers.
  at::Tensor backward_norm(ForwardState& state);

  ModelConfig config;
  const AttentionKernel& kernel;
  DecoderOptions options;
  at::ScalarType dtype;
  at::Tensor embedding;    // [V, E]
  at::Tensor d_embedding;  // [V, E]
  std::vector<DecoderLayer> layers;
  RmsNorm final_norm;
  CrossEntropyHead head;
};

at::Tensor Decoder::Parts::backward_norm(ForwardState& state) {
  final_norm.backward_weight(state.final_input, state.final_rstd, state.d_hidden);
  at::Tensor d_x = final_norm.backward_input(state.final_input, state.final_rstd, state.d_hidden);
  state.final_input.reset();
  state.final_rstd.reset();
  state.d_hidden.reset();
  return d_x;
}

ForwardResult::ForwardResult() = default;
ForwardResult::~ForwardResult() = default;
ForwardResult::ForwardResult(ForwardResult&&) noexcept = default;
ForwardResult& ForwardResult::operator=(ForwardResult&&) noexcept = default;

Decoder::Decoder(const ModelConfig& config, ParameterSet& parameters, const AttentionKernel& kernel,
                 DecoderOptions options)
    : parts_(std::make_unique<Parts>(config, parameters, kernel, options)) {}
Decoder::~Decoder() = default;

ForwardResult Decoder::forward(const PackedMicroBatch& batch, const AttentionLayout& layout,
                               RingContext ring, const Offload& offload) {
  ring.trace = parts_->options.trace;
  check_batch(parts_->config, batch, layout);
  ForwardResult result;
  result.state = std::make_unique<ForwardState>(parts_->config.num_layers, offload);
  ForwardState& state = *result.state;
  state.rotary = parts_->rotary_table(batch);
  const LayerContext context{parts_->kernel, layout, state.rotary, ring};
  at::Tensor x = parts_->embed(batch);
  for (std::size_t i = 0; i < parts_->layers.size(); ++i) {
    SavedLayer saved;
    x = parts_->layers[i].forward(x, context, saved);
    drop_recomputed(parts_->options.recompute, saved);
    state.layers.put(static_cast<std::int64_t>(i), std::move(saved));
  }
  state.final_input = x;
  state.final_rstd = parts_->final_norm.reciprocal_rms(x);
  HeadResult head =
      parts_->head.forward_backward(parts_->final_norm.forward(x, state.final_rstd), batch);
  result.loss = head.loss;
  state.d_hidden = std::move(head.d_hidden);
  return result;
}

void Decoder::backward(ForwardResult&& result, const PackedMicroBatch& batch,
                       const AttentionLayout& layout, RingContext ring) {
  ring.trace = parts_->options.trace;
  WEFT_CHECK(result.state != nullptr, "backward needs what forward left, and only once");
  const std::unique_ptr<ForwardState> state = std::move(result.state);
  const LayerContext context{parts_->kernel, layout, state->rotary, ring};
  at::Tensor d_x = parts_->backward_norm(*state);  // [T, E]
  for (std::size_t i = parts_->layers.size(); i-- > 0;) {
    SavedLayer saved = state->layers.take(static_cast<std::int64_t>(i));
    parts_->layers[i].restore(parts_->options.recompute, context, saved);
    LayerDeltas deltas;
    d_x = parts_->layers[i].backward_input(d_x, context, saved, deltas);
    parts_->layers[i].backward_weight(saved, deltas);
  }
  const OperationScope scope = parts_->embedding_scope("backward_weight");
  parts_->d_embedding.index_add_(0, batch.tokens, d_x);
}

at::Tensor Decoder::head_input(const PackedMicroBatch& batch, const AttentionLayout& layout,
                               RingContext ring) const {
  check_batch(parts_->config, batch, layout);
  const RotaryTable rotary = parts_->rotary_table(batch);
  const LayerContext context{parts_->kernel, layout, rotary, ring};
  at::Tensor x = parts_->embed(batch);
  for (const DecoderLayer& layer : parts_->layers) {
    SavedLayer dropped;
    x = layer.forward(x, context, dropped);
  }
  return parts_->final_norm.forward(x, parts_->final_norm.reciprocal_rms(x));
}

at::Tensor Decoder::logits(const PackedMicroBatch& batch, const AttentionLayout& layout,
                           RingContext ring) const {
  return parts_->head.logits(head_input(batch, layout, ring));
}

double Decoder::loss(const PackedMicroBatch& batch, const AttentionLayout& layout,
                     RingContext ring) const {
  return parts_->head.loss(head_input(batch, layout, ring), batch);
}

}  // namespace weft
