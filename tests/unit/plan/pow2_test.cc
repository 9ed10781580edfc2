// The rounds of `pow2`, against the same rules followed by looking at every ring for every
// sequence.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "plan/planner.h"
#include "tests/unit/plan/length_mixes.h"
#include "tests/unit/plan/planning_cases.h"

namespace weft {
namespace {

using testing::request_of;
using testing::sequences_of;

struct Ring {
  std::int32_t degree = 1;
  std::int64_t work = 0;
  std::int64_t tokens = 0;
  std::set<std::int32_t> sequences = {};
};

std::vector<std::int32_t> degrees_of(std::int32_t num_ranks) {
  std::vector<std::int32_t> degrees;
  for (std::int32_t degree = 1; degree < num_ranks; degree *= 2) degrees.push_back(degree);
  degrees.push_back(num_ranks);
  return degrees;
}

class Oracle {
 public:
  Oracle(std::vector<SequenceSpec> sequences, std::int32_t num_ranks, std::int64_t capacity)
      : sequences_(sorted_canonically(sequences)), num_ranks_(num_ranks), capacity_(capacity) {}

  // Rings in the order of their slots.
  std::vector<Ring> rings() {
    std::vector<std::int32_t> left;
    for (std::size_t i = 0; i < sequences_.size(); ++i)
      left.push_back(static_cast<std::int32_t>(i));
    std::vector<Ring> all;
    while (!left.empty()) {
      std::vector<Ring> round = run_round(left);
      std::stable_sort(round.begin(), round.end(),
                       [](const Ring& a, const Ring& b) { return a.degree > b.degree; });
      all.insert(all.end(), round.begin(), round.end());
    }
    return all;
  }

 private:
  std::int64_t tokens(std::int32_t idx) const {
    return sequences_[static_cast<std::size_t>(idx)].tokens.value();
  }

  std::vector<std::int32_t> choices(std::int32_t idx) const {
    std::vector<std::int32_t> choices;
    for (const std::int32_t degree : degrees_of(num_ranks_)) {
      if (degree * capacity_ >= tokens(idx)) choices.push_back(degree);
    }
    // With fewer tokens than ranks: one each; wider rings are none of its choices.
    choices.front() =
        static_cast<std::int32_t>(std::min<std::int64_t>(choices.front(), tokens(idx)));
    std::erase_if(choices, [&](std::int32_t degree) { return degree > tokens(idx); });
    return choices;
  }

  std::vector<Ring> run_round(std::vector<std::int32_t>& left) {
    std::vector<Ring> rings;
    std::vector<std::int32_t> later;
    std::int32_t num_free = num_ranks_;
    const auto limit = static_cast<std::int64_t>(1.05 * static_cast<double>(tokens(left[0]) + 1) *
                                                 static_cast<double>(capacity_) / 2);
    for (const std::int32_t idx : left) {
      std::int64_t most = 0;
      for (const Ring& ring : rings) most = std::max(most, ring.work);
      std::int64_t best = limit + 1;
      std::int32_t best_degree = 0;
      Ring* best_ring = nullptr;
      for (const std::int32_t degree : choices(idx)) {
        const std::int64_t work = tokens(idx) * (tokens(idx) + 1) / 2 / degree;
        const std::int64_t share = (tokens(idx) + degree - 1) / degree;
        for (Ring& ring : rings) {
          if (ring.degree != degree || ring.tokens + share > capacity_) continue;
          const std::int64_t ends = std::max(most, ring.work + work);
          if (ends >= best) continue;
          best = ends;
          best_degree = degree;
          best_ring = &ring;
        }
        if (num_free >= degree && std::max(most, work) < best) {
          best = std::max(most, work);
          best_degree = degree;
          best_ring = nullptr;
        }
        if (rings.empty()) break;  // the first takes its least degree
      }
      if (best_degree == 0) {
        later.push_back(idx);
        continue;
      }
      if (best_ring == nullptr) {
        best_ring = &rings.emplace_back(Ring{.degree = best_degree});
        num_free -= best_degree;
      }
      best_ring->work += tokens(idx) * (tokens(idx) + 1) / 2 / best_degree;
      best_ring->tokens += (tokens(idx) + best_degree - 1) / best_degree;
      best_ring->sequences.insert(idx);
    }
    widen(rings, num_free);
    left = later;
    return rings;
  }

  // The narrowest ring that can be doubled, the first of like ones.
  void widen(std::vector<Ring>& rings, std::int32_t num_free) const {
    for (;;) {
      Ring* narrowest = nullptr;
      for (Ring& ring : rings) {
        const std::int32_t wider = std::min(2 * ring.degree, num_ranks_);
        const bool fits = ring.degree < wider && wider - ring.degree <= num_free &&
                          tokens(*ring.sequences.rbegin()) >= wider;
        if (fits && (narrowest == nullptr || ring.degree < narrowest->degree)) narrowest = &ring;
      }
      if (narrowest == nullptr) return;
      const std::int32_t wider = std::min(2 * narrowest->degree, num_ranks_);
      num_free -= wider - narrowest->degree;
      narrowest->degree = wider;
    }
  }

  std::vector<SequenceSpec> sequences_;
  std::int32_t num_ranks_;
  std::int64_t capacity_;
};

// By slot.
std::vector<Ring> rings_of(const StepPlan& plan) {
  std::vector<Ring> rings(static_cast<std::size_t>(plan.num_slots), Ring{.degree = 0});
  for (const std::vector<MicroBatch>& rank : plan.ranks) {
    for (const MicroBatch& micro_batch : rank) {
      Ring& ring = rings[static_cast<std::size_t>(micro_batch.slot_idx)];
      ++ring.degree;
      for (const Piece& piece : micro_batch.pieces) ring.sequences.insert(piece.sequence_idx);
    }
  }
  return rings;
}

void expect_as_the_oracle(const std::vector<SequenceSpec>& sequences, std::int32_t num_ranks,
                          std::int64_t capacity) {
  const StepPlan plan = make_plan(request_of("pow2", sequences, num_ranks, capacity));
  const std::vector<Ring> found = rings_of(plan);
  const std::vector<Ring> expected = Oracle(sequences, num_ranks, capacity).rings();
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].degree, expected[i].degree) << "ring " << i;
    EXPECT_EQ(found[i].sequences, expected[i].sequences) << "ring " << i;
  }
}

TEST(PowerOfTwoRounds, GoWhereTheBusiestRankEndsWithTheLeastWork) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const RandomStream random(seed, "pow2");
    const auto num_ranks = static_cast<std::int32_t>(1 + random.below(0, 17));
    constexpr std::int64_t kCapacity = 64;
    std::vector<std::int64_t> lengths;
    for (std::uint64_t i = 0; i < 1 + random.below(1, 60); ++i) {
      const std::uint64_t longest =
          std::uint64_t{kCapacity} * static_cast<std::uint64_t>(num_ranks);
      lengths.push_back(static_cast<std::int64_t>(
          1 + random.below(2 * i + 2, random.below(2 * i + 3, longest) + 1)));
    }
    SCOPED_TRACE(::testing::Message() << "seed " << seed << ", " << num_ranks << " ranks");
    expect_as_the_oracle(sequences_of(lengths), num_ranks, kCapacity);
  }
}

TEST(PowerOfTwoRounds, TheSameOnAStepOfManySequences) {
  for (const auto& shares : {testing::kGithubShares, testing::kBytedShares})
    expect_as_the_oracle(testing::draw_lengths(shares, Tokens(2 << 20), Tokens(256 << 10), 1), 48,
                         8192);
}

TEST(PowerOfTwoRounds, AShortSequenceJoinsAWiderRingRatherThanOpenARound) {
  // 4096 and 3000 take 2 ranks each of 2048; 100 fits beside either, 1100 beside the second.
  const StepPlan plan =
      make_plan(request_of("pow2", sequences_of({4096, 2900, 100, 1000}), 4, 2048));
  EXPECT_EQ(plan.num_slots, 2);
  const std::vector<Ring> rings = rings_of(plan);
  EXPECT_EQ(rings[0].sequences, std::set<std::int32_t>({0}));
  EXPECT_EQ(rings[1].sequences, std::set<std::int32_t>({1, 2, 3}));
}

TEST(PowerOfTwoRounds, HugeCapacitiesDoNotOverflowTheLimit) {
  PlanRequest request =
      request_of("pow2", sequences_of({std::int64_t{1} << 30, std::int64_t{1} << 30}), 1,
                 std::int64_t{1} << 36);
  request.cost = testing::hand_cost();
  EXPECT_EQ(make_plan(request).ranks[0].size(), 1u) << "one round";
}

TEST(PowerOfTwoRounds, RingsOfARoundLieAtMultiplesOfTheirDegrees) {
  const auto sequences =
      testing::draw_lengths(testing::kGithubShares, Tokens(4 << 20), Tokens(128 << 10), 3);
  const StepPlan plan = make_plan(request_of("pow2", sequences, 64, 8192));
  for (const Group& group : plan.groups) {
    const auto degree = static_cast<std::int64_t>(group.ranks.size());
    EXPECT_EQ(group.ranks.front().value() % degree, 0) << "degree " << degree;
    EXPECT_EQ(group.ranks.back().value() - group.ranks.front().value(), degree - 1);
  }
}

}  // namespace
}  // namespace weft
