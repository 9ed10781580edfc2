#include "cost/memory_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/error.h"

namespace weft {
namespace {

constexpr std::int64_t kLossChunkBytes = 128 << 20;
constexpr std::int64_t kMostLossChunkRows = 1024;

constexpr std::int64_t kIdBytes = 8;      // token ids, positions, targets: int64
constexpr std::int64_t kWeightBytes = 8;  // target weights: double
constexpr std::int64_t kAngleBytes = 8;   // rotary angles: double

// Blocks of K and V rows that a ring holds at once in backward: the visiting and the arriving one,
// this rank's share, the leaving and the arriving gradients. Forward holds the first two.
constexpr std::int64_t kRingBlocks = 5;

// comm/collectives.h: what a reduction holds of other ranks' values.
constexpr std::int64_t kReductionBytes = 4 << 20;
// Scratch of one thread of the attention kernel: 0.5 MiB in fp32 at a head_dim of 128.
constexpr std::int64_t kAttentionScratchBytes = 1 << 20;
// Packing buffers of one thread of the BLAS. OpenBLAS maps 32 MiB and touches what its blocks need:
// 5 to 10 MiB in the runs of docs/results.md.
constexpr std::int64_t kBlasBytes = 8 << 20;

// Sizes of the tensors of a micro-batch in elements, by the letters of docs/memory.md.
struct Letters {
  std::int64_t T, R, C, E, H, Q, KV, F, V, D;
  std::int64_t ring;  // elements of one block
};

Letters letters_of(const MemoryShape& shape, const MicroBatchSize& size) {
  const LayerSizes& layer = shape.layer;
  const std::int64_t kv_size = layer.num_kv_heads * layer.head_dim;
  return {.T = size.tokens,
          .R = size.targets,
          .C = std::min(size.targets, loss_chunk_rows(shape.vocab_size, shape.element_bytes)),
          .E = layer.hidden_size,
          .H = layer.num_heads,
          .Q = layer.num_heads * layer.head_dim,
          .KV = kv_size,
          .F = layer.intermediate_size,
          .V = shape.vocab_size,
          .D = layer.head_dim,
          .ring = size.ring_rows * 2 * kv_size};
}

// Elements by what holds them; rows, targets and weights of the loss in bytes.
struct Moment {
  std::string_view name;
  std::int64_t saved = 0;  // this layer's, beyond what its recompute mode keeps
  std::int64_t layer = 0;
  std::int64_t loss = 0;
  std::int64_t exchange = 0;
  std::int64_t loss_id_bytes = 0;
  std::int64_t bytes(std::int64_t element_bytes) const {
    return element_bytes * (saved + layer + loss + exchange) + loss_id_bytes;
  }
};

// Moments with every layer's activations in memory. `gone`: elements that a recompute mode threw
// away and this layer has computed again.
std::vector<Moment> moments_of(const Letters& n, std::int64_t gone) {
  // Norms keep their input and 1 / rms of each row; their backward makes its result and a product.
  constexpr std::int64_t kNormTemporaries = 2;
  const std::int64_t final_input = n.T * (n.E + 1);
  // Gradients that attention's backward finds: d_out, d_norm2 and d_middle, d_gate and d_up.
  const std::int64_t feed_forward = n.T * (3 * n.E + 2 * n.F);
  const std::int64_t heads = n.T * (n.Q + 2 * n.KV);  // d_q, d_k, d_v
  return {
      // logits become their own gradient; hidden and d_hidden of all rows and of the chunk
      {.name = "loss",
       .layer = final_input,
       .loss = 2 * n.T * n.E + n.C * (n.V + 2 * n.E),
       .loss_id_bytes = (2 * kIdBytes + kWeightBytes) * n.R},
      {.name = "final norm", .layer = final_input + n.T * n.E * (1 + kNormTemporaries)},
      {.name = "feed-forward",
       .saved = gone,
       .layer = n.T * (2 * n.E + 2 * n.F + kNormTemporaries * n.E)},
      // d_attention and delta beside the heads' gradients
      {.name = "attention",
       .saved = gone,
       .layer = feed_forward + heads + n.T * (n.Q + n.H),
       .exchange = kRingBlocks * n.ring},
      {.name = "input norm",
       .saved = gone,
       .layer = feed_forward + heads + n.T * n.E * (1 + kNormTemporaries)},
      // d_norm1 and d_x; the product of the feed-forward, or a norm's output, once more
      {.name = "weights",
       .saved = gone,
       .layer = feed_forward + heads + n.T * (2 * n.E + std::max(n.F, n.E))},
  };
}

// While the rotary tables are made, nothing else is there but the ids.
std::int64_t rotary_bytes(const Letters& n, std::int64_t element_bytes) {
  const std::int64_t half = n.T * n.D / 2;
  return half * (2 * kAngleBytes + (element_bytes == kAngleBytes ? 1 : 2) * element_bytes);
}

}  // namespace

std::int64_t loss_chunk_rows(std::int64_t vocab_size, std::int64_t element_bytes) {
  const std::int64_t row_bytes = std::max<std::int64_t>(1, vocab_size * element_bytes);
  return std::clamp<std::int64_t>(kLossChunkBytes / row_bytes, 1, kMostLossChunkRows);
}

double resident_layers(std::int64_t num_layers, double offload_ratio) {
  const double beyond = static_cast<double>(std::max<std::int64_t>(num_layers - 2, 0));
  return static_cast<double>(std::min<std::int64_t>(num_layers, 2)) + (1 - offload_ratio) * beyond;
}

MemoryParts predict_peak(const MemoryShape& shape, const MicroBatchSize& size) {
  WEFT_CHECK(size.tokens >= 0 && size.targets >= 0 && size.targets <= size.tokens &&
                 size.ring_rows >= 0 && size.offload_ratio >= 0 && size.offload_ratio <= 1,
             "memory of a micro-batch of {} tokens, {} targets, {} ring rows, offload ratio {}",
             size.tokens, size.targets, size.ring_rows, size.offload_ratio);
  const std::int64_t width = shape.element_bytes;
  const Bytes states(shape.num_parameters * width);
  MemoryParts parts;
  parts.parameters = parts.gradients = states;
  parts.moments = 2 * states;
  parts.outside = Bytes(shape.threads_per_rank * (kAttentionScratchBytes + kBlasBytes));
  if (shape.num_ranks > 1) parts.outside += std::min(Bytes(kReductionBytes), states);
  parts.moment = "states";
  if (size.tokens == 0) return parts;

  const Letters n = letters_of(shape, size);
  const std::int64_t kept = n.T * saved_elements_per_token(shape.layer, shape.recompute);
  const std::int64_t gone = n.T * saved_elements_per_token(shape.layer, Recompute::kNone) - kept;
  const auto activations = static_cast<std::int64_t>(
      std::ceil(static_cast<double>(kept) * resident_layers(shape.num_layers, size.offload_ratio)));
  const std::int64_t ids = n.T * (3 * kIdBytes + kWeightBytes);
  const std::vector<Moment> moments = moments_of(n, gone);
  const Moment& worst = *std::max_element(
      moments.begin(), moments.end(),
      [&](const Moment& a, const Moment& b) { return a.bytes(width) < b.bytes(width); });
  parts.moment = worst.name;
  parts.batch = Bytes(ids + n.T * n.D * width);
  parts.activations = Bytes(width * (activations + worst.saved));
  parts.layer = Bytes(width * worst.layer);
  parts.loss = Bytes(width * worst.loss + worst.loss_id_bytes);
  parts.exchange = Bytes(width * worst.exchange);

  const Bytes tables(ids + rotary_bytes(n, width));
  if (parts.states() + tables <= parts.tensors()) return parts;
  parts.moment = "rotary tables";
  parts.batch = tables;
  parts.activations = parts.layer = parts.loss = parts.exchange = Bytes();
  return parts;
}

MicroBatchSize largest_micro_batch(const MemoryShape& shape, Tokens capacity) {
  return {.tokens = capacity.value(),
          .targets = capacity.value(),
          .ring_rows = shape.num_ranks > 1 ? capacity.value() : 0};
}

std::optional<Tokens> largest_capacity(const MemoryShape& shape, Bytes budget, Tokens most) {
  const auto fits = [&](std::int64_t tokens) {
    return predict_peak(shape, largest_micro_batch(shape, Tokens(tokens))).total() <= budget;
  };
  if (most < Tokens(1) || !fits(1)) return std::nullopt;
  std::int64_t good = 1;
  std::int64_t beyond = most.value() + 1;  // `good` fits, `beyond` is not allowed or does not fit
  while (good + 1 < beyond) {
    const std::int64_t middle = good + (beyond - good) / 2;
    (fits(middle) ? good : beyond) = middle;
  }
  return Tokens(good);
}

std::string describe_parts(const MemoryParts& parts) {
  struct Named {
    std::string_view name;
    Bytes bytes;
  };
  const std::array<Named, 9> named = {{{"parameters", parts.parameters},
                                       {"gradients", parts.gradients},
                                       {"optimizer", parts.moments},
                                       {"batch", parts.batch},
                                       {"activations", parts.activations},
                                       {"layer", parts.layer},
                                       {"loss", parts.loss},
                                       {"exchange", parts.exchange},
                                       {"outside tensors", parts.outside}}};
  std::string list;
  for (const Named& part : named) {
    if (part.bytes == Bytes(0)) continue;
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", part.name, format_bytes(part.bytes));
  }
  return list;
}

}  // namespace weft
