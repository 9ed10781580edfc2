#include "model/decoder_layer.h"

#include <string>

#include "model/swiglu.h"

namespace weft {
namespace {

std::size_t index_in_layer(const ParameterSet& parameters, std::int64_t layer_idx,
                           std::string_view name) {
  return parameters.index_of(fmt::format("model.layers.{}.{}.weight", layer_idx, name));
}

Linear linear(const ParameterSet& parameters, std::int64_t layer_idx, std::string_view name) {
  const std::size_t index = index_in_layer(parameters, layer_idx, name);
  return {parameters.value(index), parameters.gradient(index)};
}

RmsNorm norm(const ParameterSet& parameters, std::int64_t layer_idx, std::string_view name,
             double eps) {
  const std::size_t index = index_in_layer(parameters, layer_idx, name);
  return {parameters.value(index), parameters.gradient(index), eps};
}

// [T, N * D] -> [T, N, D], the same memory.
at::Tensor as_heads(const at::Tensor& flat, std::int64_t num_heads, std::int64_t head_dim) {
  return flat.view({flat.size(0), num_heads, head_dim});
}

// [T, N, D] -> [T, N * D], the same memory.
at::Tensor as_rows(const at::Tensor& heads) {
  return heads.view({heads.size(0), heads.size(1) * heads.size(2)});
}

}  // namespace

DecoderLayer::DecoderLayer(const ModelConfig& config, const ParameterSet& parameters,
                           std::int64_t layer_idx)
    : layer_idx_(layer_idx),
      shape_{.num_heads = config.num_heads,
             .num_kv_heads = config.num_kv_heads,
             .head_dim = config.head_dim},
      input_norm_(norm(parameters, layer_idx, "input_layernorm", config.rms_norm_eps)),
      q_proj_(linear(parameters, layer_idx, "self_attn.q_proj")),
      k_proj_(linear(parameters, layer_idx, "self_attn.k_proj")),
      v_proj_(linear(parameters, layer_idx, "self_attn.v_proj")),
      o_proj_(linear(parameters, layer_idx, "self_attn.o_proj")),
      post_attention_norm_(
          norm(parameters, layer_idx, "post_attention_layernorm", config.rms_norm_eps)),
      gate_proj_(linear(parameters, layer_idx, "mlp.gate_proj")),
      up_proj_(linear(parameters, layer_idx, "mlp.up_proj")),
      down_proj_(linear(parameters, layer_idx, "mlp.down_proj")) {}

RingContext DecoderLayer::ring_of(const LayerContext& context) const {
  RingContext ring = context.ring;
  ring.layer = static_cast<std::int32_t>(layer_idx_);
  return ring;
}

at::Tensor DecoderLayer::forward(const at::Tensor& x, const LayerContext& context,
                                 SavedLayer& saved) const {
  saved.input = x;
  saved.input_rstd = input_norm_.reciprocal_rms(x);
  run_attention(context, saved);
  run_projections(saved);
  return down_proj_.add_forward(saved.middle, swiglu_forward(saved.gate, saved.up));
}

void DecoderLayer::run_attention(const LayerContext& context, SavedLayer& saved) const {
  {
    const at::Tensor norm1 = input_norm_.forward(saved.input, saved.input_rstd);  // [T, E]
    saved.q = as_heads(q_proj_.forward(norm1), shape_.num_heads, shape_.head_dim);
    saved.k = as_heads(k_proj_.forward(norm1), shape_.num_kv_heads, shape_.head_dim);
    saved.v = as_heads(v_proj_.forward(norm1), shape_.num_kv_heads, shape_.head_dim);
  }
  rotate(saved.q, context.rotary);
  rotate(saved.k, context.rotary);
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
  SwiGluGradients glu =
      swiglu_backward(saved.gate, saved.up, down_proj_.backward_input(d_out));  // [T, F]
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
  rotate_back(heads.d_q, context.rotary);
  rotate_back(heads.d_k, context.rotary);
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
  down_proj_.backward_weight(swiglu_forward(saved.gate, saved.up), deltas.d_out);
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
