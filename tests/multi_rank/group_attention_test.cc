// Attention over groups of thread ranks against the dense attention of each whole sequence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/multi_rank/attention_world.h"

namespace weft {
namespace {

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
  expect_cut_equals_dense(2999, zigzag_cut(2999, 4), {1, 1, 16});
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
  void forward(std::span<const ForwardPair<float>> pairs) const override {
    check(pairs), kernel_->forward(pairs);
  }
  void forward(std::span<const ForwardPair<double>> pairs) const override {
    check(pairs), kernel_->forward(pairs);
  }
  void start_backward(const BackwardStart<float>& start) const override {
    kernel_->start_backward(start);
  }
  void start_backward(const BackwardStart<double>& start) const override {
    kernel_->start_backward(start);
  }
  void backward(std::span<const BackwardPair<float>> pairs) const override {
    check(pairs), kernel_->backward(pairs);
  }
  void backward(std::span<const BackwardPair<double>> pairs) const override {
    check(pairs), kernel_->backward(pairs);
  }

 private:
  template <class Pair>
  static void check(std::span<const Pair> pairs) {
    for (const Pair& pair : pairs) {
      EXPECT_GT(pair.q.num_rows, 0);
      EXPECT_GT(pair.k.num_rows, 0);
      EXPECT_LE(pair.k_begin, pair.q_begin + pair.q.num_rows - 1);
    }
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
      expect_ring_traffic(world, comm);
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
  void forward(std::span<const ForwardPair<float>>) const override { fail(); }
  void forward(std::span<const ForwardPair<double>>) const override { fail(); }
  void start_backward(const BackwardStart<float>&) const override { fail(); }
  void start_backward(const BackwardStart<double>&) const override { fail(); }
  void backward(std::span<const BackwardPair<float>>) const override { fail(); }
  void backward(std::span<const BackwardPair<double>>) const override { fail(); }

 private:
  static void fail() { throw InternalError("kernel broke"); }
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
