#include "model/decoder_layer.h"

#include <string>

namespace weft {
namespace {

// [T, N * D] -> [T, N, D], the same memory.
at::Tensor as_heads(const at::Tensor& flat, std::int64_t num_heads, std::int64_t head_dim) {
  return flat.view({flat.size(0), num_heads, head_dim});
}

// [T, N, D] -> [T, N * D], the same memory.
at::Tensor as_rows(const at::Tensor& heads) {
  return heads.view({heads.size(0), heads.size(1) * heads.size(2)});
}

}  // namespace

// Makes the parts of one layer.
struct DecoderLayer::Parts {
  const ParameterSet& parameters;
  std::int64_t layer_idx;
  OperationTrace* trace;

  std::size_t index_of(std::string_view name) const {
    return parameters.index_of(fmt::format("model.layers.{}.{}.weight", layer_idx, name));
  }
  // `name` of static storage.
  OperationSite site(std::string_view name) const {
    return {trace, name, static_cast<std::int32_t>(layer_idx)};
  }
  Linear linear(std::string_view name) const {
    const std::size_t index = index_of(name);
    return {parameters.value(index), parameters.gradient(index), site(name)};
  }
  RmsNorm norm(std::string_view name, double eps) const {
    const std::size_t index = index_of(name);
    return {parameters.value(index), parameters.gradient(index), eps, site(name)};
  }
};

DecoderLayer::DecoderLayer(const ModelConfig& config, const ParameterSet& parameters,
                           std::int64_t layer_idx, OperationTrace* trace)
    : DecoderLayer(config, Parts{parameters, layer_idx, trace}) {}

DecoderLayer::DecoderLayer(const ModelConfig& config, const Parts& parts)
    : layer_idx_(parts.layer_idx),
      trace_(parts.trace),
      shape_{.num_heads = config.num_heads,
             .num_kv_heads = config.num_kv_heads,
             .head_dim = config.head_dim},
      input_norm_(parts.norm("input_layernorm", config.rms_norm_eps)),
      q_proj_(parts.linear("self_attn.q_proj")),
      k_proj_(parts.linear("self_attn.k_proj")),
      v_proj_(parts.linear("self_attn.v_proj")),
      o_proj_(parts.linear("self_attn.o_proj")),
      post_attention_norm_(parts.norm("post_attention_layernorm", config.rms_norm_eps)),
      gate_proj_(parts.linear("mlp.gate_proj")),
      up_proj_(parts.linear("mlp.up_proj")),
      down_proj_(parts.linear("mlp.down_proj")) {}

RingContext DecoderLayer::ring_of(const LayerContext& context) const {
  RingContext ring = context.ring;
  ring.layer = static_cast<std::int32_t>(layer_idx_);
  return ring;
}

OperationScope DecoderLayer::elementwise(std::string_view name, std::string_view pass) const {
  return {{trace_, name, static_cast<std::int32_t>(layer_idx_)}, OperationKind::kElementwise, pass};
}

at::Tensor DecoderLayer::swiglu(const SavedLayer& saved, std::string_view pass) const {
  const OperationScope scope = elementwise("swiglu", pass);
  return swiglu_forward(saved.gate, saved.up);
}

SwiGluGradients DecoderLayer::swiglu_gradients(const SavedLayer& saved, at::Tensor d_h) const {
  const OperationScope scope = elementwise("swiglu", "backward_input");
  return swiglu_backward(saved.gate, saved.up, std::move(d_h));
}

at::Tensor DecoderLayer::forward(const at::Tensor& x, const LayerContext& context,
                                 SavedLayer& saved) const {
  saved.input = x;
  saved.input_rstd = input_norm_.reciprocal_rms(x);
  run_attention(context, saved);
  run_projections(saved);
  return down_proj_.add_forward(saved.middle, swiglu(saved, "forward"));
}

void DecoderLayer::run_attention(const LayerContext& context, SavedLayer& saved) const {
  {
    const at::Tensor norm1 = input_norm_.forward(saved.input, saved.input_rstd);  // [T, E]
    saved.q = as_heads(q_proj_.forward(norm1), shape_.num_heads, shape_.head_dim);
    saved.k = as_heads(k_proj_.forward(norm1), shape_.num_kv_heads, shape_.head_dim);
    saved.v = as_heads(v_proj_.forward(norm1), shape_.num_kv_heads, shape_.head_dim);
  }
  {
    const OperationScope scope = elementwise("rotary", "forward");
    rotate(saved.q, context.rotary);
    rotate(saved.k, context.rotary);
  }
  AttentionResult attention = attention_forward(context.kernel, context.layout, shape_, saved.q,
                                                saved.k, saved.v, ring_of(context));
  saved.attention_out = attention.out;
  saved.attention_lse = attention.lse;
}

void DecoderLayer::run_projections(SavedLayer& saved) const {
  saved.middle = o_proj_.add_forward(saved.input, as_rows(saved.attention_out));  // [T, E]
  saved.middle_rstd = post_attention_norm_.reciprocal_rms(saved.middle);
  const at::Tensor norm2 = post_attention_norm_.forward(saved.middle, saved.middle_rstd);  // [T, E]
  saved.gate = gate_proj_.forward(norm2);                                                  // [T, F]
  saved.up = up_proj_.forward(norm2);                                                      // [T, F]
}

void DecoderLayer::restore(Recompute recompute, const LayerContext& context,
                           SavedLayer& saved) const {
  if (recompute == Recompute::kNone) return;
  run_attention(context, saved);
  if (recompute == Recompute::kFull) run_projections(saved);
}

at::Tensor DecoderLayer::backward_input(const at::Tensor& d_out, const LayerContext& context,
                                        const SavedLayer& saved, LayerDeltas& deltas) const {
  deltas.d_out = d_out;
  SwiGluGradients glu = swiglu_gradients(saved, down_proj_.backward_input(d_out));  // [T, F]
  deltas.d_norm2 = gate_proj_.backward_input(glu.d_gate);
  up_proj_.add_backward_input(deltas.d_norm2, glu.d_up);
  deltas.d_gate = std::move(glu.d_gate);
  deltas.d_up = std::move(glu.d_up);
  deltas.d_middle =
      post_attention_norm_.backward_input(saved.middle, saved.middle_rstd, deltas.d_norm2);
  deltas.d_middle.add_(d_out);

  AttentionGradients heads =
      attention_backward(context.kernel, context.layout, shape_, saved.q, saved.k, saved.v,
                         {.out = saved.attention_out, .lse = saved.attention_lse},
                         as_heads(o_proj_.backward_input(deltas.d_middle), shape_.num_heads,
                                  shape_.head_dim),  // [T, H, D]
                         ring_of(context));
  {
    const OperationScope scope = elementwise("rotary", "backward");
    rotate_back(heads.d_q, context.rotary);
    rotate_back(heads.d_k, context.rotary);
  }
  deltas.d_q = as_rows(heads.d_q);
  deltas.d_k = as_rows(heads.d_k);
  deltas.d_v = as_rows(heads.d_v);
  deltas.d_norm1 = q_proj_.backward_input(deltas.d_q);
  k_proj_.add_backward_input(deltas.d_norm1, deltas.d_k);
  v_proj_.add_backward_input(deltas.d_norm1, deltas.d_v);
  return input_norm_.backward_input(saved.input, saved.input_rstd, deltas.d_norm1)
      .add_(deltas.d_middle);
}

void DecoderLayer::backward_weight(const SavedLayer& saved, const LayerDeltas& deltas) {
  down_proj_.backward_weight(swiglu(saved, "backward_weight"), deltas.d_out);
  {
    const at::Tensor norm2 =
        post_attention_norm_.forward(saved.middle, saved.middle_rstd);  // [T, E]
    gate_proj_.backward_weight(norm2, deltas.d_gate);
    up_proj_.backward_weight(norm2, deltas.d_up);
  }
  post_attention_norm_.backward_weight(saved.middle, saved.middle_rstd, deltas.d_norm2);
  o_proj_.backward_weight(as_rows(saved.attention_out), deltas.d_middle);
  {
    const at::Tensor norm1 = input_norm_.forward(saved.input, saved.input_rstd);  // [T, E]
    q_proj_.backward_weight(norm1, deltas.d_q);
    k_proj_.backward_weight(norm1, deltas.d_k);
    v_proj_.backward_weight(norm1, deltas.d_v);
  }
  input_norm_.backward_weight(saved.input, saved.input_rstd, deltas.d_norm1);
}

}  // namespace weft
