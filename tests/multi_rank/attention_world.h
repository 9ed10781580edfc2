// A plan's attention on thread ranks: inputs and results of whole sequences, whoever computes which
// rows, the dense truth for them, and what the rings must have sent.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "attention/attention.h"
#include "base/error.h"
#include "comm/thread/thread_world.h"
#include "plan/plan_codec.h"
#include "plan/plan_slice.h"
#include "plan/validate.h"
#include "tests/support/random_plan.h"
#include "tests/unit/attention/dense_oracle.h"

namespace weft {

inline constexpr double kInf = std::numeric_limits<double>::infinity();

inline double tolerance_of(at::ScalarType dtype) { return dtype == at::kFloat ? 1e-5 : 1e-12; }

// Inputs and results of one whole sequence, whoever computes which rows.
struct SequenceTensors {
  at::Tensor q, k, v, d_out;  // [S, H, D], [S, K, D], [S, K, D], [S, H, D]
  at::Tensor out, lse;        // [S, H, D], [S, H]
  at::Tensor d_q, d_k, d_v;

  SequenceTensors(std::uint64_t seed, std::int64_t tokens, const HeadCounts& heads,
                  at::ScalarType dtype)
      : q(random_tensor(seed, {tokens, heads.num_heads, heads.head_dim}, dtype)),
        k(random_tensor(seed + 1, {tokens, heads.num_kv_heads, heads.head_dim}, dtype)),
        v(random_tensor(seed + 2, k.sizes(), dtype)),
        d_out(random_tensor(seed + 3, q.sizes(), dtype)),
        out(at::full_like(q, kInf)),
        lse(at::full({tokens, heads.num_heads}, kInf, q.options())),
        d_q(at::full_like(q, kInf)),
        d_k(at::full_like(k, kInf)),
        d_v(at::full_like(v, kInf)) {}
};

struct World {
  StepPlan plan;
  HeadCounts heads;
  std::vector<SequenceTensors> sequences;  // by StepPlan::sequences

  World(const StepPlan& step_plan, const HeadCounts& head_counts, at::ScalarType dtype,
        std::uint64_t seed)
      : plan(step_plan), heads(head_counts) {
    validate(plan);
    for (std::size_t i = 0; i < plan.sequences.size(); ++i) {
      sequences.emplace_back(seed + 10 * i, plan.sequences[i].tokens.value(), heads, dtype);
    }
  }

  SequenceTensors& of(const PlanSlice& slice, const Piece& piece) {
    const std::int64_t id = slice.sequences[piece.sequence_idx].id;
    for (std::size_t i = 0; i < plan.sequences.size(); ++i) {
      if (plan.sequences[i].id == id) return sequences[i];
    }
    throw_internal_error("sequence {} is not in the plan", id);
  }

  // What the pieces of a micro-batch hold of one of the tensors, in row order.
  at::Tensor gather(const PlanSlice& slice, const MicroBatch& micro_batch,
                    at::Tensor SequenceTensors::* member) {
    std::vector<at::Tensor> parts;
    for (const Piece& piece : micro_batch.pieces) {
      parts.push_back((of(slice, piece).*member).narrow(0, piece.range.begin, piece.range.size()));
    }
    return at::cat(parts, 0).contiguous();
  }

  // Ranks write disjoint rows, so no two threads touch the same element.
  void scatter(const PlanSlice& slice, const MicroBatch& micro_batch, const at::Tensor& rows,
               at::Tensor SequenceTensors::* member) {
    std::int64_t row = 0;
    for (const Piece& piece : micro_batch.pieces) {
      const std::int64_t size = piece.range.size();
      (of(slice, piece).*member)
          .narrow(0, piece.range.begin, size)
          .copy_(rows.narrow(0, row, size));
      row += size;
    }
  }
};

inline PlanSlice slice_of(const World& world, const Communicator& comm) {
  return slice_plan(world.plan, plan_hash(world.plan), comm.rank());
}

// All micro-batches of one rank: forward and backward.
inline void run_slice(World& world, const PlanSlice& slice, const AttentionKernel& kernel,
                      Communicator& comm) {
  set_compute_threads(1);
  const AttentionShape shape = world.heads.shape();
  for (const MicroBatch& micro_batch : slice.micro_batches) {
    const AttentionLayout layout = make_attention_layout(slice, micro_batch);
    const auto input = [&](at::Tensor SequenceTensors::* member) {
      return world.gather(slice, micro_batch, member);
    };
    const auto output = [&](const at::Tensor& rows, at::Tensor SequenceTensors::* member) {
      world.scatter(slice, micro_batch, rows, member);
    };
    const auto [packed, q, k, v] = split_qkv(
        shape,
        at::cat(
            {input(&SequenceTensors::q), input(&SequenceTensors::k), input(&SequenceTensors::v)}, 1)
            .flatten(1));
    const at::Tensor d_out = input(&SequenceTensors::d_out);
    const RingContext ring{&comm, slice.step, 0};
    const AttentionResult result = attention_forward(kernel, layout, shape, q, k, v, ring);
    const Qkv gradients = attention_backward(kernel, layout, shape, q, k, v, result, d_out, ring);
    output(result.out, &SequenceTensors::out);
    output(result.lse.transpose(0, 1), &SequenceTensors::lse);
    output(gradients.q, &SequenceTensors::d_q);
    output(gradients.k, &SequenceTensors::d_k);
    output(gradients.v, &SequenceTensors::d_v);
  }
}

inline void run_rank(World& world, const AttentionKernel& kernel, Communicator& comm) {
  run_slice(world, slice_of(world, comm), kernel, comm);
}

inline void run_world(World& world, const AttentionKernel& kernel) {
  run_thread_ranks({.num_ranks = world.plan.num_ranks},
                   [&](Communicator& comm) { run_rank(world, kernel, comm); });
}

inline void expect_equal_to_dense(const World& world) {
  for (std::size_t i = 0; i < world.sequences.size(); ++i) {
    const SequenceTensors& got = world.sequences[i];
    const DenseGradients dense = dense_attention_gradients(got.q, got.k, got.v, got.d_out);
    const double tolerance = tolerance_of(got.q.scalar_type());
    SCOPED_TRACE(fmt::format("sequence {} of {} tokens", i, got.q.size(0)));
    EXPECT_LT(relative_error(got.lse, dense.lse.transpose(0, 1)), tolerance);
    EXPECT_LT(largest_error(got.out, got.d_q, got.d_k, got.d_v, dense), tolerance);
  }
}

inline std::vector<std::vector<TokenRange>> zigzag_cut(std::int64_t tokens, std::int32_t degree) {
  std::vector<std::vector<TokenRange>> cut;
  for (std::int32_t i = 0; i < degree; ++i) cut.push_back(zigzag_ranges(Tokens(tokens), degree, i));
  return cut;
}

inline StepPlan make_random_plan(std::uint64_t seed, std::int32_t num_ranks) {
  RandomPlanOptions options;
  options.num_ranks = num_ranks;
  options.seed = seed;
  options.sequences = random_sequences(seed, 3 + static_cast<std::int32_t>(seed % 9), 250);
  return random_plan(options);
}

// Whether group g continues the ring of group g - 1, read off the whole plan.
inline bool continues_ring(const StepPlan& plan, std::int32_t g) {
  if (g == 0) return false;
  const Group &previous = plan.groups[g - 1], &group = plan.groups[g];
  return previous.slot_idx == group.slot_idx && previous.ranks == group.ranks;
}

struct RingTraffic {
  std::int64_t messages = 0;
  std::int64_t bytes = 0;
};

// The formula of docs/attention.md for one layer, forward and backward. Each group adds its bytes,
// each ring its messages.
inline RingTraffic expected_traffic(const World& world, const PlanSlice& slice) {
  const std::int64_t row_bytes = 2 * world.heads.num_kv_heads * world.heads.head_dim *
                                 world.sequences.front().k.element_size();
  RingTraffic traffic;
  for (const GroupSlice& group : slice.groups) {
    std::int64_t tokens = 0, tokens_of_next = 0;
    for (std::int32_t i = 0; i < group.degree(); ++i) {
      for (const TokenRange& range : group.member_ranges[i]) {
        tokens += range.size();
        if (i == (group.position + 1) % group.degree()) tokens_of_next += range.size();
      }
    }
    traffic.bytes += row_bytes * ((tokens - tokens_of_next) + (2 * tokens - tokens_of_next));
    if (continues_ring(world.plan, group.plan_group_idx)) continue;
    traffic.messages += (group.degree() - 1) + (2 * group.degree() - 1);
  }
  return traffic;
}

inline RingTraffic sent_on_rings(const Communicator& comm) {
  const ChannelStats stats = comm.stats(Channel::kRing);
  return {stats.messages_sent, stats.bytes_sent.value()};
}

// REQUIRES: run_rank is all that `comm` has done.
inline void expect_ring_traffic(const World& world, const Communicator& comm) {
  const RingTraffic expected = expected_traffic(world, slice_of(world, comm));
  const RingTraffic sent = sent_on_rings(comm);
  EXPECT_EQ(sent.messages, expected.messages) << "rank " << comm.rank().value();
  EXPECT_EQ(sent.bytes, expected.bytes) << "rank " << comm.rank().value();
}

}  // namespace weft
