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

// Queries and keys of a packed product, which lie side by side and turn alike: [T, H + K, D].
at::Tensor queries_and_keys(const at::Tensor& packed, const AttentionShape& shape) {
  return as_heads(packed, shape.num_heads + 2 * shape.num_kv_heads, shape.head_dim)
      .narrow(1, 0, shape.num_heads + shape.num_kv_heads);
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
  Linear linear(std::string_view name) const { return stacked(name, 1, name); }
  // `count` projections of one input from `first` on.
  Linear stacked(std::string_view first, std::size_t count, std::string_view name) const {
    const std::size_t index = index_of(first);
    return {parameters.stacked_value(index, count), parameters.stacked_gradient(index, count),
            site(name)};
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
      qkv_proj_(parts.stacked("self_attn.q_proj", 3, "self_attn.qkv_proj")),
      o_proj_(parts.linear("self_attn.o_proj")),
      post_attention_norm_(parts.norm("post_attention_layernorm", config.rms_norm_eps)),
      gate_up_proj_(parts.stacked("mlp.gate_proj", 2, "mlp.gate_up_proj")),
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
  return swiglu_forward(saved.gate_up);
}

// d_out [T, E] -> d_gate_up [T, 2 F]
at::Tensor DecoderLayer::backward_feed_forward(const at::Tensor& d_out,
                                               const SavedLayer& saved) const {
  at::Tensor d_gate_up = at::empty_like(saved.gate_up);
  down_proj_.backward_input(d_out, gate_of(d_gate_up));
  const OperationScope scope = elementwise("swiglu", "backward_input");
  swiglu_backward(saved.gate_up, d_gate_up);
  return d_gate_up;
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
  saved.qkv = qkv_proj_.forward(input_norm_.forward(saved.input, saved.input_rstd));
  {
    const OperationScope scope = elementwise("rotary", "forward");
    rotate(queries_and_keys(saved.qkv, shape_), context.rotary);
  }
  const Qkv heads = split_qkv(shape_, saved.qkv);
  AttentionResult attention = attention_forward(context.kernel, context.layout, shape_, heads.q,
                                                heads.k, heads.v, ring_of(context));
  saved.attention_out = attention.out;
  saved.attention_lse = attention.lse;
}

void DecoderLayer::run_projections(SavedLayer& saved) const {
  saved.middle = o_proj_.add_forward(saved.input, as_rows(saved.attention_out));  // [T, E]
  saved.middle_rstd = post_attention_norm_.reciprocal_rms(saved.middle);
  saved.gate_up =
      gate_up_proj_.forward(post_attention_norm_.forward(saved.middle, saved.middle_rstd));
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
  deltas.d_gate_up = backward_feed_forward(d_out, saved);
  deltas.d_norm2 = gate_up_proj_.backward_input(deltas.d_gate_up);
  deltas.d_middle =
      post_attention_norm_.backward_input(saved.middle, saved.middle_rstd, deltas.d_norm2);
  deltas.d_middle.add_(d_out);

  const Qkv heads = split_qkv(shape_, saved.qkv);
  deltas.d_qkv =
      attention_backward(context.kernel, context.layout, shape_, heads.q, heads.k, heads.v,
                         {.out = saved.attention_out, .lse = saved.attention_lse},
                         as_heads(o_proj_.backward_input(deltas.d_middle), shape_.num_heads,
                                  shape_.head_dim),  // [T, H, D]
                         ring_of(context))
          .packed;
  {
    const OperationScope scope = elementwise("rotary", "backward");
    rotate_back(queries_and_keys(deltas.d_qkv, shape_), context.rotary);
  }
  deltas.d_norm1 = qkv_proj_.backward_input(deltas.d_qkv);
  return input_norm_.backward_input(saved.input, saved.input_rstd, deltas.d_norm1)
      .add_(deltas.d_middle);
}

void DecoderLayer::backward_weight(const SavedLayer& saved, const LayerDeltas& deltas) {
  down_proj_.backward_weight(swiglu(saved, "backward_weight"), deltas.d_out);
  gate_up_proj_.backward_weight(post_attention_norm_.forward(saved.middle, saved.middle_rstd),
                                deltas.d_gate_up);
  post_attention_norm_.backward_weight(saved.middle, saved.middle_rstd, deltas.d_norm2);
  o_proj_.backward_weight(as_rows(saved.attention_out), deltas.d_middle);
  qkv_proj_.backward_weight(input_norm_.forward(saved.input, saved.input_rstd), deltas.d_qkv);
  input_norm_.backward_weight(saved.input, saved.input_rstd, deltas.d_norm1);
}

}  // namespace weft
