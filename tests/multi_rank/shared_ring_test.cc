// Neighbouring groups of the same ranks travel as one ring, others do not: results, messages,
// labels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "plan/evaluate.h"
#include "tests/multi_rank/attention_world.h"

namespace weft {
namespace {

using Cut = std::vector<std::vector<TokenRange>>;

// One sequence on ranks[i] with the pieces cut[i]. One rank: a whole sequence. An empty cut:
// zigzag.
struct Share {
  std::int64_t tokens = 0;
  std::vector<std::int32_t> ranks;
  Cut cut = {};
  std::int32_t slot_idx = 0;
};

MicroBatch& micro_batch_in(std::vector<MicroBatch>& micro_batches, std::int32_t slot_idx) {
  for (MicroBatch& micro_batch : micro_batches) {
    if (micro_batch.slot_idx == slot_idx) return micro_batch;
  }
  return micro_batches.emplace_back(MicroBatch{slot_idx, 0, {}});
}

// Groups and pieces in the order of `shares`, which are also the sequences' ids.
StepPlan plan_of(std::int32_t num_ranks, const std::vector<Share>& shares) {
  StepPlan plan;
  plan.strategy = "test";
  plan.num_ranks = num_ranks;
  plan.capacity = Tokens(1 << 20);
  plan.ranks.resize(num_ranks);
  for (std::size_t id = 0; id < shares.size(); ++id) {
    const Tokens tokens(shares[id].tokens);
    plan.sequences.push_back({static_cast<std::int64_t>(id), tokens, tokens.value()});
  }
  sort_canonically(plan.sequences);
  for (std::size_t id = 0; id < shares.size(); ++id) {
    const Share& share = shares[id];
    std::int32_t sequence_idx = 0;
    while (plan.sequences[sequence_idx].id != static_cast<std::int64_t>(id)) ++sequence_idx;
    const auto degree = static_cast<std::int32_t>(share.ranks.size());
    const Cut cut = degree == 1         ? Cut{{{0, share.tokens}}}
                    : share.cut.empty() ? zigzag_cut(share.tokens, degree)
                                        : share.cut;
    std::int32_t group_idx = kNoGroup;
    if (degree > 1) {
      group_idx = static_cast<std::int32_t>(plan.groups.size());
      Group& group = plan.groups.emplace_back(Group{sequence_idx, share.slot_idx, {}});
      for (const std::int32_t rank : share.ranks) group.ranks.emplace_back(rank);
    }
    for (std::int32_t i = 0; i < degree; ++i) {
      MicroBatch& micro_batch = micro_batch_in(plan.ranks[share.ranks[i]], share.slot_idx);
      for (const TokenRange& range : cut[i]) {
        micro_batch.pieces.push_back({sequence_idx, group_idx, range});
      }
    }
    plan.num_slots = std::max(plan.num_slots, share.slot_idx + 1);
  }
  return plan;
}

// Several pieces out of order on the first member, single tokens on the others.
Cut lopsided_cut(std::int64_t tokens, std::int32_t degree) {
  Cut cut{{{tokens / 2, tokens - degree + 1}, {0, tokens / 2}}};
  for (std::int64_t i = tokens - degree + 1; i < tokens; ++i) cut.push_back({{i, i + 1}});
  return cut;
}

void expect_dense_and_formula(const StepPlan& plan, at::ScalarType dtype) {
  World world(plan, {4, 2, 8}, dtype, 900);
  run_thread_ranks({.num_ranks = plan.num_ranks}, [&](Communicator& comm) {
    run_rank(world, *make_blocked_kernel(), comm);
    expect_ring_traffic(world, comm);
  });
  expect_equal_to_dense(world);
}

// Rank 0 is in all groups of these plans, so it counts their rings. All groups are of 3 ranks.
void expect_rings(const std::vector<Share>& shares, std::int64_t num_rings) {
  const StepPlan plan = plan_of(5, shares);
  std::int64_t messages = -1;
  World world(plan, {2, 1, 4}, at::kDouble, 901);
  run_thread_ranks({.num_ranks = 5}, [&](Communicator& comm) {
    run_rank(world, *make_reference_kernel(), comm);
    if (comm.rank() == Rank(0)) messages = sent_on_rings(comm).messages;
  });
  EXPECT_EQ(messages, num_rings * (2 + 2 + 3));
  expect_dense_and_formula(plan, at::kFloat);
}

class SharedRing : public testing::Test {
 protected:
  static void SetUpTestSuite() { set_blas_threads(1); }
};

TEST_F(SharedRing, NeighbouringGroupsOfEqualRanksAreOneRingOnEveryGroupSize) {
  for (std::int32_t degree = 2; degree <= 8; ++degree) {
    SCOPED_TRACE(fmt::format("degree {}", degree));
    std::vector<std::int32_t> ranks;
    for (std::int32_t i = 0; i < degree; ++i) ranks.push_back((2 * degree - i) % degree);
    const StepPlan plan = plan_of(degree, {{40, ranks, lopsided_cut(40, degree)},
                                           {degree, ranks},
                                           {97, ranks},
                                           {55, ranks, lopsided_cut(55, degree)}});
    for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
      expect_dense_and_formula(plan, dtype);
    }
  }
}

TEST_F(SharedRing, WhereGroupsDifferInOneRankOrderOrSlotTheRingEnds) {
  const std::vector<std::int32_t> a{0, 1, 2}, b{0, 1, 3};
  const Cut uneven = {{{3, 9}, {0, 2}}, {{2, 3}, {10, 30}}, {{9, 10}}};
  expect_rings({{30, a}}, 1);
  expect_rings({{30, a}, {30, a, uneven}, {12, a}}, 1);
  expect_rings({{30, a}, {30, b}}, 2);
  expect_rings({{30, a, uneven}, {9, b}, {40, a}}, 3);
  expect_rings({{30, a, uneven}, {9, a}, {8, b}, {30, b, uneven}, {40, a}, {5, a}}, 3);
  // The same set in another order, and in the same cyclic order from another member.
  expect_rings({{30, a, uneven}, {30, {0, 2, 1}, uneven}}, 2);
  expect_rings({{30, a, uneven}, {30, {1, 2, 0}, uneven}, {7, {1, 2, 0}}}, 2);
  expect_rings({{30, a, {}, 0}, {20, a, {}, 1}, {10, a, {}, 1}}, 2);
}

// Ranks 0 to 2 see no group between the two that they share; rank 3 does not see those at all.
TEST_F(SharedRing, GroupsWithAnotherGroupBetweenThemStayTwoRingsWhereItIsNotSeen) {
  expect_rings({{30, {0, 1, 2}}, {30, {3, 4}}, {40, {0, 1, 2}}}, 2);
}

TEST_F(SharedRing, WholeSequencesBetweenTheGroupsDoNotPartTheRing) {
  expect_rings({{11, {0}}, {30, {0, 1, 2}}, {6, {1}}, {13, {0}}, {50, {0, 1, 2}}, {1, {2}}}, 1);
}

TEST_F(SharedRing, ResultsAreBitEqualToRingsOfOneGroupEach) {
  const std::vector<std::int32_t> ranks{2, 0, 3, 1};
  const StepPlan plan = plan_of(
      4, {{61, ranks, lopsided_cut(61, 4)}, {9, {1}}, {100, ranks}, {7, ranks}, {30, {3, 1}}});
  World together(plan, {4, 2, 16}, at::kFloat, 7), apart(plan, {4, 2, 16}, at::kFloat, 7);
  std::vector<std::int64_t> messages(4);
  run_thread_ranks({.num_ranks = 4}, [&](Communicator& comm) {
    run_rank(together, *make_blocked_kernel(), comm);
    messages[comm.rank().value()] = sent_on_rings(comm).messages;
  });
  run_thread_ranks({.num_ranks = 4}, [&](Communicator& comm) {
    PlanSlice slice = slice_of(apart, comm);
    for (GroupSlice& group : slice.groups) group.plan_group_idx *= 2;  // no longer neighbours
    run_slice(apart, slice, *make_blocked_kernel(), comm);
    const std::int64_t more = sent_on_rings(comm).messages - messages[comm.rank().value()];
    EXPECT_EQ(more, 2 * (3 + 3 + 4));
  });
  for (std::size_t i = 0; i < plan.sequences.size(); ++i) {
    const SequenceTensors &a = together.sequences[i], &b = apart.sequences[i];
    EXPECT_TRUE(at::equal(a.out, b.out));
    EXPECT_TRUE(at::equal(a.lse, b.lse));
    EXPECT_TRUE(at::equal(a.d_q, b.d_q));
    EXPECT_TRUE(at::equal(a.d_k, b.d_k));
    EXPECT_TRUE(at::equal(a.d_v, b.d_v));
  }
}

// Passes calls on and keeps their labels.
class LabelRecorder final : public Communicator {
 public:
  explicit LabelRecorder(Communicator& comm) : comm_(comm) {}
  Rank rank() const override { return comm_.rank(); }
  std::int32_t size() const override { return comm_.size(); }
  std::string_view transport() const override { return comm_.transport(); }
  Handle exchange(Channel channel, const OpLabel& label, std::span<const SendOp> sends,
                  std::span<const RecvOp> recvs) override {
    labels.push_back(label);
    return comm_.exchange(channel, label, sends, recvs);
  }
  void abort(std::string_view reason) noexcept override { comm_.abort(reason); }
  ChannelStats stats(Channel channel) const override { return comm_.stats(channel); }
  std::chrono::nanoseconds wait_limit() const override { return comm_.wait_limit(); }

  std::vector<OpLabel> labels;

 private:
  Communicator& comm_;
};

TEST_F(SharedRing, MessagesBearTheFirstGroupOfTheirRingAndRingsRunInPlanOrder) {
  const StepPlan plan = plan_of(3, {{20, {0, 1}}, {30, {1, 0}}, {9, {1, 0}}, {25, {0, 1}}});
  World world(plan, {2, 1, 4}, at::kDouble, 3);
  run_thread_ranks({.num_ranks = 3}, [&](Communicator& comm) {
    LabelRecorder recorder(comm);
    run_rank(world, *make_reference_kernel(), recorder);
    std::vector<std::pair<std::string, std::int32_t>> sent;
    for (const OpLabel& label : recorder.labels) {
      if (label.hop == 0) sent.emplace_back(label.operation, label.group);
    }
    const std::string forward = "ring kv forward", kv = "ring kv backward",
                      dkv = "ring dkv backward";
    if (comm.rank() == Rank(2)) {
      EXPECT_THAT(sent, testing::IsEmpty());
    } else {
      EXPECT_THAT(sent, testing::ElementsAre(std::pair(forward, 0), std::pair(forward, 1),
                                             std::pair(forward, 3), std::pair(kv, 0),
                                             std::pair(dkv, 0), std::pair(kv, 1), std::pair(dkv, 1),
                                             std::pair(kv, 3), std::pair(dkv, 3)));
    }
  });
}

// With a cost of 1 ns a hop and nothing else, a rank's predicted time is its number of hops.
TEST_F(SharedRing, ForwardSendsAsManyMessagesAsEvaluateCountsHops) {
  CostModel cost;
  cost.hop_fixed_ns = 1;
  cost.backward_ratio = 0;
  const std::vector<std::int32_t> all{0, 1, 2, 3}, turned{1, 2, 3, 0};
  const StepPlan plan = plan_of(4, {{15, {1}},
                                    {40, all},
                                    {50, all, lopsided_cut(50, 4)},
                                    {30, {2, 3}},
                                    {20, all},
                                    {8, turned},
                                    {9, turned},
                                    {7, {0}},
                                    {10, all, {}, 1}});
  World world(plan, {2, 1, 4}, at::kDouble, 4);
  const Evaluation predicted = evaluate(plan, cost, uniform_cluster(4, 4));
  run_thread_ranks({.num_ranks = 4}, [&](Communicator& comm) {
    LabelRecorder recorder(comm);
    run_rank(world, *make_reference_kernel(), recorder);
    const auto hops =
        std::count_if(recorder.labels.begin(), recorder.labels.end(),
                      [](const OpLabel& label) { return label.operation == "ring kv forward"; });
    EXPECT_EQ(hops, predicted.ranks[comm.rank().value()].busy.value());
  });
  EXPECT_EQ(predicted.ranks[0].busy, Nanoseconds(4 * 3));
  EXPECT_EQ(predicted.ranks[2].busy, Nanoseconds(4 * 3 + 1));
}

}  // namespace
}  // namespace weft
