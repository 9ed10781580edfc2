// Decoder: the Llama-family model with explicit forward and backward, run one micro-batch at a
// time.
//
// forward returns this micro-batch's share of the step loss, sum(w_t / W * loss_t) over its
// targets; backward adds its share of the gradient to ParameterSet's flat gradients. Shares sum
// over micro-batches and ranks to exactly the whole step's loss and gradient (ByteScale Eq. 1-2);
// no mean is taken anywhere. Letters: T tokens of the micro-batch, V vocabulary, E hidden_size.
#pragma once

#include <memory>

#include "attention/attention.h"
#include "loader/packed_micro_batch.h"
#include "memory/activation_store.h"
#include "memory/recompute.h"
#include "model/parameters.h"

namespace weft {

// What a forward keeps for its backward. Opaque; freed as backward proceeds.
class ForwardState;

struct ForwardResult {
  ForwardResult();
  ~ForwardResult();
  ForwardResult(ForwardResult&&) noexcept;
  ForwardResult& operator=(ForwardResult&&) noexcept;
  double loss = 0;  // share of the step loss, accumulated in double
  std::unique_ptr<ForwardState> state;
};

struct DecoderOptions {
  Recompute recompute = Recompute::kNone;
  OperationTrace* trace = nullptr;  // may be null
};

class Decoder {
 public:
  // `parameters`, `kernel` and the trace must outlive the decoder.
  Decoder(const ModelConfig& config, ParameterSet& parameters, const AttentionKernel& kernel,
          DecoderOptions options = {});
  ~Decoder();

  // Takes the head's gradient on the way, while its logits are there, and adds its weight's share
  // to the flat gradients: each forward needs its backward, or zero_gradients(). `offload`: where a
  // share of what is kept waits for backward.
  ForwardResult forward(const PackedMicroBatch& batch, const AttentionLayout& layout,
                        RingContext ring, const Offload& offload = {});
  // Adds the rest to the flat gradients. `batch`, `layout` and `ring` as given to forward.
  void backward(ForwardResult&& result, const PackedMicroBatch& batch,
                const AttentionLayout& layout, RingContext ring);
  // [T, V], for evaluation and tests.
  at::Tensor logits(const PackedMicroBatch& batch, const AttentionLayout& layout,
                    RingContext ring) const;
  // Share of the step loss alone: keeps nothing, changes no gradient.
  double loss(const PackedMicroBatch& batch, const AttentionLayout& layout, RingContext ring) const;

 private:
  // [T, E] after the final norm.
  at::Tensor head_input(const PackedMicroBatch& batch, const AttentionLayout& layout,
                        RingContext ring) const;

  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace weft
