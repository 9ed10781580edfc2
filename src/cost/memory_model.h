// The memory of a rank: what its tensors take at the worst moment of a micro-batch, counted from
// shapes (ByteScale 5.2 bounds a rank by tokens; here they become bytes).
//
// A rank always holds its states: parameters, gradients and two moments. On top of them come, for
// one micro-batch at a time, what forward leaves for backward in every layer (less what is computed
// again or offloaded) and the temporaries of the moment. Few moments can be the worst one; all
// others hold a subset of what one of these holds (docs/memory.md lists them tensor by tensor):
//
//   rotary tables      a micro-batch of next to no width
//   loss               a chunk of the output head, at the end of forward
//   final norm         where few rows have a target
//   feed-forward, attention, input norm, weights: of the last layer's backward
//
// Pure integer arithmetic without tensors, in the control plane: trainer, planner and simulator ask
// the same functions. The data plane's own sizes follow from here too (loss_chunk_rows).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/units.h"
#include "cost/recompute_mode.h"

namespace weft {

// What all ranks of a run have in common.
struct MemoryShape {
  LayerSizes layer;
  std::int64_t num_layers = 1;
  std::int64_t vocab_size = 1;
  std::int64_t num_parameters = 0;
  std::int64_t element_bytes = 4;  // of parameters, gradients, moments, activations
  Recompute recompute = Recompute::kNone;
  std::int32_t num_ranks = 1;
  std::int32_t threads_per_rank = 1;
};

// One micro-batch of one rank, as far as memory goes.
struct MicroBatchSize {
  std::int64_t tokens = 0;
  std::int64_t targets = 0;    // rows with a target
  std::int64_t ring_rows = 0;  // most rows that a member of one of its rings holds; 0: no ring
  double offload_ratio = 0;    // r: share of the activations that waits elsewhere
};

// The worst moment, by what holds the bytes.
struct MemoryParts {
  Bytes parameters;
  Bytes gradients;
  Bytes moments;            // of the optimizer
  Bytes batch;              // token ids, positions, targets, weights, rotary tables
  Bytes activations;        // what forward left for backward, this layer's own included
  Bytes layer;              // temporaries of the layers and of the final norm
  Bytes loss;               // logits of a chunk, and what the head keeps
  Bytes exchange;           // blocks on their way round a ring
  Bytes outside;            // not tensors: scratch of attention and BLAS, messages of the reduction
  std::string_view moment;  // which it is

  Bytes states() const { return parameters + gradients + moments; }
  Bytes tensors() const { return states() + batch + activations + layer + loss + exchange; }
  Bytes total() const { return tensors() + outside; }
};

// Most rows that have logits at a time, so that they take at most 128 MiB (or are one row): enough
// for the matrix products to run at full speed.
std::int64_t loss_chunk_rows(std::int64_t vocab_size, std::int64_t element_bytes);

// l * resident_tokens / tokens (design section 3): min(2, l) + (1 - r) * max(l - 2, 0), the number
// of layers whose activations stay in memory.
double resident_layers(std::int64_t num_layers, double offload_ratio);

MemoryParts predict_peak(const MemoryShape& shape, const MicroBatchSize& size);

// The largest micro-batch that a capacity allows, when every token has a target and, with more than
// one rank, all belong to one ring; nothing offloaded.
MicroBatchSize largest_micro_batch(const MemoryShape& shape, Tokens capacity);

// The largest capacity, 1 to `most`, with which no micro-batch exceeds the budget; nullopt: not
// even one token fits.
std::optional<Tokens> largest_capacity(const MemoryShape& shape, Bytes budget, Tokens most);

// "parameters 1.00 MiB, gradients ..., optimizer ..., activations ...": every part that is not
// empty.
std::string describe_parts(const MemoryParts& parts);

}  // namespace weft
