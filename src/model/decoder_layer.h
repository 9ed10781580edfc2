// DecoderLayer: one Llama layer, x + attention(norm(x)) and then m + feed_forward(norm(m)), with
// explicit passes.
//
// Backward is in two halves that may run apart: backward_input needs the ring of attention and
// gives the gradient of the layer's input; backward_weight needs only what forward saved and what
// backward_input left in LayerDeltas. Letters: T rows, E hidden_size, H query heads, K key/value
// heads, D head_dim, F feed-forward size.
#pragma once

#include <cstdint>

#include "attention/attention.h"
#include "memory/recompute.h"
#include "model/linear.h"
#include "model/parameters.h"
#include "model/rms_norm.h"
#include "model/rotary.h"
#include "model/swiglu.h"

namespace weft {

// What all layers of one micro-batch share.
struct LayerContext {
  const AttentionKernel& kernel;
  const AttentionLayout& layout;
  const RotaryTable& rotary;
  RingContext ring;  // its layer is set by the layer
};

// Gradients of a layer's inner tensors: what backward_weight needs.
struct LayerDeltas {
  at::Tensor d_out;      // [T, E] of the layer's output
  at::Tensor d_gate_up;  // [T, 2 F]
  at::Tensor d_norm2;    // [T, E] of the feed-forward's input
  at::Tensor d_middle;   // [T, E] of the residual stream between the two halves
  at::Tensor d_qkv;      // [T, (H + 2 K) D] before rotation
  at::Tensor d_norm1;    // [T, E] of the attention's input
};

class DecoderLayer {
 public:
  // `trace` may be null; otherwise it outlives the layer.
  DecoderLayer(const ModelConfig& config, const ParameterSet& parameters, std::int64_t layer_idx,
               OperationTrace* trace = nullptr);

  // x [T, E] -> [T, E]. x becomes part of `saved` and must not be changed afterwards.
  at::Tensor forward(const at::Tensor& x, const LayerContext& context, SavedLayer& saved) const;
  // Computes again what drop_recomputed(recompute, saved) freed: the same bits. All ranks of a ring
  // do it at the same point.
  void restore(Recompute recompute, const LayerContext& context, SavedLayer& saved) const;
  // d_out [T, E] -> d_x [T, E]
  at::Tensor backward_input(const at::Tensor& d_out, const LayerContext& context,
                            const SavedLayer& saved, LayerDeltas& deltas) const;
  void backward_weight(const SavedLayer& saved, const LayerDeltas& deltas);

 private:
  struct Parts;
  DecoderLayer(const ModelConfig& config, const Parts& parts);
  RingContext ring_of(const LayerContext& context) const;
  OperationScope elementwise(std::string_view name, std::string_view pass) const;
  at::Tensor swiglu(const SavedLayer& saved, std::string_view pass) const;  // [T, F]
  at::Tensor backward_feed_forward(const at::Tensor& d_out, const SavedLayer& saved) const;
  // From saved.input: q, k, v, attention's output.
  void run_attention(const LayerContext& context, SavedLayer& saved) const;
  // From saved.input and attention's output: middle, gate and up.
  void run_projections(SavedLayer& saved) const;

  std::int64_t layer_idx_;
  OperationTrace* trace_;
  AttentionShape shape_;
  RmsNorm input_norm_;
  Linear qkv_proj_;  // q_proj, k_proj and v_proj in one product
  Linear o_proj_;
  RmsNorm post_attention_norm_;
  Linear gate_up_proj_;  // gate_proj and up_proj in one product
  Linear down_proj_;
};

}  // namespace weft
