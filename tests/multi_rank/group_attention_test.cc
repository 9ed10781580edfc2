// Attention over groups of thread ranks against the dense attention of each whole sequence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
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
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

double tolerance_of(at::ScalarType dtype) { return dtype == at::kFloat ? 1e-5 : 1e-12; }

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

// All micro-batches of one rank: forward and backward.
void run_rank(World& world, const AttentionKernel& kernel, Communicator& comm) {
  set_compute_threads(1);
  const PlanSlice slice = slice_plan(world.plan, plan_hash(world.plan), comm.rank());
  const AttentionShape shape = world.heads.shape();
  for (const MicroBatch& micro_batch : slice.micro_batches) {
    const AttentionLayout layout = make_attention_layout(slice, micro_batch);
    const auto input = [&](at::Tensor SequenceTensors::* member) {
      return world.gather(slice, micro_batch, member);
    };
    const auto output = [&](const at::Tensor& rows, at::Tensor SequenceTensors::* member) {
      world.scatter(slice, micro_batch, rows, member);
    };
    const at::Tensor q = input(&SequenceTensors::q), k = input(&SequenceTensors::k);
    const at::Tensor v = input(&SequenceTensors::v), d_out = input(&SequenceTensors::d_out);
    const RingContext ring{&comm, slice.step, 0};
    const AttentionResult result = attention_forward(kernel, layout, shape, q, k, v, ring);
    const AttentionGradients gradients =
        attention_backward(kernel, layout, shape, q, k, v, result, d_out, ring);
    output(result.out, &SequenceTensors::out);
    output(result.lse.transpose(0, 1), &SequenceTensors::lse);
    output(gradients.d_q, &SequenceTensors::d_q);
    output(gradients.d_k, &SequenceTensors::d_k);
    output(gradients.d_v, &SequenceTensors::d_v);
  }
}

void run_world(World& world, const AttentionKernel& kernel) {
  run_thread_ranks({.num_ranks = world.plan.num_ranks},
                   [&](Communicator& comm) { run_rank(world, kernel, comm); });
}

void expect_equal_to_dense(const World& world) {
  for (std::size_t i = 0; i < world.sequences.size(); ++i) {
    const SequenceTensors& got = world.sequences[i];
    const DenseGradients dense = dense_attention_gradients(got.q, got.k, got.v, got.d_out);
    const double tolerance = tolerance_of(got.q.scalar_type());
    SCOPED_TRACE(fmt::format("sequence {} of {} tokens", i, got.q.size(0)));
    EXPECT_LT(relative_error(got.lse, dense.lse.transpose(0, 1)), tolerance);
    EXPECT_LT(largest_error(got.out, got.d_q, got.d_k, got.d_v, dense), tolerance);
  }
}

// One sequence shared by all ranks; cut[i] are the pieces of ring member i.
StepPlan shared_plan(std::int64_t tokens, const std::vector<std::vector<TokenRange>>& cut) {
  StepPlan plan;
  plan.strategy = "test";
  plan.num_ranks = static_cast<std::int32_t>(cut.size());
  plan.capacity = Tokens(tokens);
  plan.sequences = {{0, Tokens(tokens), tokens}};
  plan.num_slots = 1;
  Group group;
  for (std::int32_t rank = 0; rank < plan.num_ranks; ++rank) {
    group.ranks.emplace_back(rank);
    MicroBatch micro_batch;
    for (const TokenRange& range : cut[rank]) micro_batch.pieces.push_back({0, 0, range});
    plan.ranks.push_back({micro_batch});
  }
  plan.groups = {group};
  return plan;
}

std::vector<std::vector<TokenRange>> zigzag_cut(std::int64_t tokens, std::int32_t degree) {
  std::vector<std::vector<TokenRange>> cut;
  for (std::int32_t i = 0; i < degree; ++i) cut.push_back(zigzag_ranges(Tokens(tokens), degree, i));
  return cut;
}

void expect_cut_equals_dense(std::int64_t tokens, const std::vector<std::vector<TokenRange>>& cut,
                             const HeadCounts& heads) {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
    SCOPED_TRACE(testing::Message() << tokens << " tokens on " << cut.size() << " ranks, " << heads
                                    << " " << dtype_name(dtype));
    World world(shared_plan(tokens, cut), heads, dtype, 500 + tokens);
    run_world(world, *make_blocked_kernel());
    expect_equal_to_dense(world);
  }
}

StepPlan make_random_plan(std::uint64_t seed, std::int32_t num_ranks) {
  RandomPlanOptions options;
  options.num_ranks = num_ranks;
  options.seed = seed;
  options.sequences = random_sequences(seed, 3 + static_cast<std::int32_t>(seed % 9), 250);
  return random_plan(options);
}

class GroupAttention : public testing::Test {
 protected:
  static void SetUpTestSuite() { set_blas_threads(1); }
};

TEST_F(GroupAttention, AnyPlanOnOneToEightRanksEqualsWholeSequences) {
  const std::vector<HeadCounts> all_heads{{4, 4, 16}, {8, 2, 8}, {8, 1, 24}, {2, 1, 5}};
  for (std::int32_t num_ranks = 1; num_ranks <= 8; ++num_ranks) {
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
      const HeadCounts heads = all_heads[(seed + num_ranks) % all_heads.size()];
      const at::ScalarType dtype = seed % 3 == 0 ? at::kFloat : at::kDouble;
      SCOPED_TRACE(testing::Message() << num_ranks << " ranks, seed " << seed << ", heads " << heads
                                      << ", " << dtype_name(dtype));
      World world(make_random_plan(seed, num_ranks), heads, dtype, seed);
      run_world(world, *make_attention_kernel(seed % 2 == 0 ? "blocked" : "reference"));
      expect_equal_to_dense(world);
    }
  }
}

TEST_F(GroupAttention, FewKeyHeadsWorkOnEveryGroupSize) {
  for (const std::int32_t degree : {3, 4, 8}) {
    for (const std::int64_t kv_heads : {8, 2, 1}) {
      expect_cut_equals_dense(61, zigzag_cut(61, degree), {8, kv_heads, 8});
    }
  }
  expect_cut_equals_dense(100, zigzag_cut(100, 8), {28, 4, 4});
}

TEST_F(GroupAttention, UnevenSharesUseTheirOwnLengthsOnEveryHop) {
  expect_cut_equals_dense(2999, zigzag_cut(2999, 4), {2, 1, 16});
}

TEST_F(GroupAttention, SequencesAboutAsShortAsTheGroupLoseNoToken) {
  for (const std::int32_t degree : {2, 3, 5, 7}) {
    for (const std::int64_t tokens :
         {degree, degree + 1, 2 * degree - 1, 2 * degree, 2 * degree + 1}) {
      expect_cut_equals_dense(tokens, zigzag_cut(tokens, degree), {2, 1, 4});
    }
  }
}

TEST_F(GroupAttention, ArbitraryCutsEqualTheWhole) {
  // Member 0's queries see no key of member 1.
  expect_cut_equals_dense(90, {{{0, 50}}, {{50, 90}}}, {2, 1, 8});
  // One member holds all but single tokens, one of them the last.
  expect_cut_equals_dense(90, {{{89, 90}}, {{0, 30}, {31, 89}}, {{30, 31}}}, {2, 1, 8});
  // Pieces out of order and touching.
  expect_cut_equals_dense(90, {{{40, 60}, {0, 10}, {10, 12}}, {{60, 90}, {12, 40}}}, {2, 1, 8});
  // A different number of pieces on each member.
  expect_cut_equals_dense(
      20, {{{0, 1}, {2, 3}, {4, 5}, {6, 7}}, {{1, 2}, {3, 4}}, {{5, 6}, {7, 20}}}, {2, 1, 8});
}

// Passes calls on and checks that each one has a visible pair.
class WatchfulKernel final : public AttentionKernel {
 public:
  std::string_view name() const override { return "watchful"; }
  void forward(const ForwardPair<float>& pair) const override {
    check(pair), kernel_->forward(pair);
  }
  void forward(const ForwardPair<double>& pair) const override {
    check(pair), kernel_->forward(pair);
  }
  void backward(const BackwardPair<float>& pair) const override {
    check(pair), kernel_->backward(pair);
  }
  void backward(const BackwardPair<double>& pair) const override {
    check(pair), kernel_->backward(pair);
  }

 private:
  template <class Pair>
  static void check(const Pair& pair) {
    EXPECT_GT(pair.q.num_rows, 0);
    EXPECT_GT(pair.k.num_rows, 0);
    EXPECT_LE(pair.k_begin, pair.q_begin + pair.q.num_rows - 1);
  }
  std::unique_ptr<AttentionKernel> kernel_ = make_blocked_kernel();
};

TEST_F(GroupAttention, PairsWithoutCausalOverlapAreNotComputed) {
  for (const std::int32_t degree : {2, 5, 8}) {
    World world(shared_plan(100, zigzag_cut(100, degree)), {2, 1, 4}, at::kDouble, 1);
    run_world(world, WatchfulKernel());
    expect_equal_to_dense(world);
  }
}

TEST_F(GroupAttention, MessagesAndBytesFollowTheFormula) {
  for (std::int32_t num_ranks = 2; num_ranks <= 8; ++num_ranks) {
    const std::uint64_t seed = 70 + num_ranks;
    SCOPED_TRACE(fmt::format("seed {}", seed));
    World world(make_random_plan(seed, num_ranks), {4, 2, 8}, at::kFloat, seed);
    const std::unique_ptr<AttentionKernel> kernel = make_blocked_kernel();
    run_thread_ranks({.num_ranks = num_ranks}, [&](Communicator& comm) {
      run_rank(world, *kernel, comm);
      const PlanSlice slice = slice_plan(world.plan, plan_hash(world.plan), comm.rank());
      std::int64_t messages = 0, bytes = 0;
      for (const GroupSlice& group : slice.groups) {
        const std::int64_t row_bytes = 2 * world.heads.num_kv_heads * world.heads.head_dim * 4;
        std::int64_t tokens = 0, tokens_of_next = 0;
        for (std::int32_t i = 0; i < group.degree(); ++i) {
          for (const TokenRange& range : group.member_ranges[i]) {
            tokens += range.size();
            if (i == (group.position + 1) % group.degree()) tokens_of_next += range.size();
          }
        }
        messages += (group.degree() - 1) + (2 * group.degree() - 1);
        bytes += row_bytes * ((tokens - tokens_of_next) + (2 * tokens - tokens_of_next));
      }
      EXPECT_EQ(comm.stats(Channel::kRing).messages_sent, messages);
      EXPECT_EQ(comm.stats(Channel::kRing).bytes_sent.value(), bytes);
      EXPECT_EQ(comm.stats(Channel::kReduce).messages_sent, 0);
    });
  }
}

TEST_F(GroupAttention, RepeatedRunsGiveTheSameBits) {
  const StepPlan plan = make_random_plan(5, 5);
  World first(plan, {4, 2, 16}, at::kFloat, 9), second(plan, {4, 2, 16}, at::kFloat, 9);
  for (World* world : {&first, &second}) run_world(*world, *make_blocked_kernel());
  for (std::size_t i = 0; i < first.sequences.size(); ++i) {
    const SequenceTensors &a = first.sequences[i], &b = second.sequences[i];
    EXPECT_TRUE(at::equal(a.out, b.out));
    EXPECT_TRUE(at::equal(a.lse, b.lse));
    EXPECT_TRUE(at::equal(a.d_q, b.d_q));
    EXPECT_TRUE(at::equal(a.d_k, b.d_k));
    EXPECT_TRUE(at::equal(a.d_v, b.d_v));
  }
}

TEST_F(GroupAttention, OtherSequencesAreBitEqualWhateverOneSequenceHolds) {
  for (std::uint64_t seed = 21; seed <= 24; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const StepPlan plan = make_random_plan(seed, 4);
    World world(plan, {4, 2, 8}, at::kFloat, seed), changed(plan, {4, 2, 8}, at::kFloat, seed);
    // The longest sequence is the one that is shared most widely.
    SequenceTensors& document = changed.sequences[0];
    document = SequenceTensors(12345, document.q.size(0), changed.heads, at::kFloat);
    run_world(world, *make_blocked_kernel());
    run_world(changed, *make_blocked_kernel());
    EXPECT_FALSE(at::equal(world.sequences[0].out, changed.sequences[0].out));
    for (std::size_t i = 1; i < world.sequences.size(); ++i) {
      const SequenceTensors &a = world.sequences[i], &b = changed.sequences[i];
      EXPECT_TRUE(at::equal(a.out, b.out));
      EXPECT_TRUE(at::equal(a.d_q, b.d_q));
      EXPECT_TRUE(at::equal(a.d_k, b.d_k));
      EXPECT_TRUE(at::equal(a.d_v, b.d_v));
    }
  }
}

// Fails in the middle of a ring, while transfers are in flight.
class FailingKernel final : public AttentionKernel {
 public:
  std::string_view name() const override { return "failing"; }
  void forward(const ForwardPair<float>&) const override { throw InternalError("kernel broke"); }
  void forward(const ForwardPair<double>&) const override { throw InternalError("kernel broke"); }
  void backward(const BackwardPair<float>&) const override { throw InternalError("kernel broke"); }
  void backward(const BackwardPair<double>&) const override { throw InternalError("kernel broke"); }
};

TEST_F(GroupAttention, KernelThatThrowsOnOneRankEndsAllRanksWithItsReason) {
  World world(shared_plan(60, zigzag_cut(60, 3)), {2, 1, 4}, at::kDouble, 1);
  try {
    run_thread_ranks({.num_ranks = 3}, [&](Communicator& comm) {
      if (comm.rank() == Rank(1)) return run_rank(world, FailingKernel(), comm);
      run_rank(world, *make_reference_kernel(), comm);
    });
    FAIL() << "the failure must be reported";
  } catch (const InternalError& error) {
    EXPECT_STREQ(error.what(), "kernel broke");
  }
}

TEST_F(GroupAttention, RankThatIsNotWhereTheGroupSaysIsRefused) {
  const StepPlan plan = shared_plan(8, zigzag_cut(8, 2));
  EXPECT_THROW(run_thread_ranks({.num_ranks = 2},
                                [&](Communicator& comm) {
                                  const Rank other(1 - comm.rank().value());
                                  const PlanSlice slice = slice_plan(plan, plan_hash(plan), other);
                                  const AttentionLayout layout =
                                      make_attention_layout(slice, slice.micro_batches[0]);
                                  const at::Tensor rows = random_tensor(1, {4, 1, 4});
                                  attention_forward(*make_reference_kernel(), layout, {1, 1, 4},
                                                    rows, rows, rows, {&comm, 0, 0});
                                }),
               InternalError);
}

}  // namespace
}  // namespace weft
