// Hops that are cheaper inside a node: what plans cost, and where the planner puts groups.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/error.h"
#include "plan/evaluate.h"
#include "plan/explain.h"
#include "plan/hdp_search.h"
#include "plan/node_choice.h"
#include "plan/node_strip.h"
#include "plan/plan_builder.h"
#include "plan/plan_codec.h"
#include "plan/planner.h"
#include "plan/validate.h"
#include "tests/unit/plan/length_mixes.h"
#include "tests/unit/plan/planning_cases.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using testing::hand_cost;
using ::testing::HasSubstr;
using testing::request_of;
using testing::sequences_of;

CostModel hand_cost_with_nodes() {
  CostModel cost = hand_cost();
  cost.node_hop_ns_per_token = 1;
  cost.node_hop_fixed_ns = 2;
  return cost;
}

// NICs at a quarter of what links inside a node carry, and far from hidden.
CostModel dear_nics() {
  CostModel cost = reference_cost_7b();
  cost.node_hop_ns_per_token = cost.hop_ns_per_token;
  cost.node_hop_fixed_ns = cost.hop_fixed_ns;
  cost.hop_ns_per_token *= 4;
  return cost;
}

StepPlan plan_of_two(std::int32_t first, std::int32_t second) {
  StepPlan plan;
  plan.strategy = "by hand";
  plan.num_ranks = 4;
  plan.capacity = Tokens(4);
  plan.sequences = sequences_of({6});
  PlanBuilder builder(plan);
  builder.open_slot();
  const std::array<Rank, 2> ranks{Rank(first), Rank(second)};
  builder.add_shared(0, ranks);
  return plan;
}

TEST(NodeHops, ARingInsideANodePaysThemAndAnyOtherTheHopsBetween) {
  const CostModel cost = hand_cost_with_nodes();
  // 21 pairs: members have 9 and 12 of them, 3 tokens each; one of two steps hides the hop.
  const auto time = [&](std::int32_t first, std::int32_t second, std::int32_t ranks_per_node) {
    return evaluate(plan_of_two(first, second), cost, uniform_cluster(4, ranks_per_node)).makespan;
  };
  const auto expected = [&](double hop) {
    const auto of = [&](double pairs) {
      return 30 + 7 + 2 * pairs + std::max(0.0, hop - pairs);  // half of 2 ns a pair is hidden
    };
    return Nanoseconds(static_cast<std::int64_t>(std::max(of(9), of(12))));
  };
  EXPECT_EQ(time(0, 1, 2), expected(2 + 3 * 1));
  EXPECT_EQ(time(2, 3, 2), expected(2 + 3 * 1));
  EXPECT_EQ(time(1, 2, 2), expected(5 + 3 * 3));
  EXPECT_EQ(time(1, 0, 4), expected(2 + 3 * 1));
  EXPECT_EQ(time(0, 1, 1), expected(5 + 3 * 3));
}

TEST(NodeHops, PricesThatMakeNoDifferenceChangeNoPlan) {
  const auto sequences =
      testing::draw_lengths(testing::kGithubShares, Tokens(1 << 20), Tokens(65'536), 5);
  for (const std::int32_t num_ranks : {4, 24}) {
    PlanRequest request = request_of("hdp", sequences, std::max(num_ranks, 8), 8192);
    const Hash128 plain = plan_hash(make_plan(request));
    request.cost.node_hop_ns_per_token = request.cost.hop_ns_per_token;
    request.cost.node_hop_fixed_ns = request.cost.hop_fixed_ns;
    EXPECT_EQ(plan_hash(make_plan(request)), plain) << "as dear as others";
    request.cost.node_hop_ns_per_token = 0;
    request.cluster.ranks_per_node = 1;
    EXPECT_EQ(plan_hash(make_plan(request)), plain) << "no ring is inside a node";
    request.cluster.ranks_per_node = num_ranks + 8;
    PlanRequest inside = request;
    inside.cost.hop_ns_per_token = 0;
    EXPECT_EQ(plan_hash(make_plan(request)), plan_hash(make_plan(inside))) << "all rings are";
  }
}

TEST(NodeHops, HopsInsideANodeThatAreDearerThanOthersAreRefused) {
  PlanRequest request = request_of("hdp", sequences_of({10'000}), 8, 8192);
  request.cost.node_hop_ns_per_token = request.cost.hop_ns_per_token + 1;
  try {
    make_plan(request);
    FAIL() << "planned";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("node_hop_ns_per_token"));
  }
}

std::vector<RankLoad> loads_of(const std::vector<std::int64_t>& free_at) {
  std::vector<RankLoad> loads;
  for (std::size_t r = 0; r < free_at.size(); ++r)
    loads.emplace_back(free_at[r], static_cast<std::int32_t>(r));
  std::sort(loads.begin(), loads.end());
  return loads;
}

std::vector<std::int32_t> ranks_of(const std::vector<RankLoad>& loads, const RankChoice& choice) {
  std::vector<std::int32_t> ranks;
  for (const std::size_t i : choice.chosen) ranks.push_back(loads[i].second);
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

TEST(NodeChoice, TakesTheNodeThatIsFreeFirstAndWaitsLeast) {
  const ClusterSpec cluster = uniform_cluster(10, 4);  // nodes of 4, 4 and 2
  const auto loads = loads_of({9, 9, 9, 9, 0, 3, 5, 5, 5, 5});
  auto choice = choose_node(loads, 2, cluster);
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->start, 3);
  EXPECT_THAT(ranks_of(loads, *choice), ElementsAre(4, 5)) << "the only two by then";
  choice = choose_node(loads, 4, cluster);
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->start, 5);
  EXPECT_THAT(ranks_of(loads, *choice), ElementsAre(4, 5, 6, 7));
  EXPECT_FALSE(choose_node(loads, 5, cluster));
  // All are free: the node that has the fewest besides.
  const auto idle = loads_of(std::vector<std::int64_t>(10, 0));
  choice = choose_node(idle, 2, cluster);
  EXPECT_THAT(ranks_of(idle, *choice), ElementsAre(8, 9));
  choice = choose_node(idle, 3, cluster);
  EXPECT_THAT(ranks_of(idle, *choice), ElementsAre(1, 2, 3)) << "the last ones of equal";
  const RankChoice any = choose_ranks(loads, 3);
  EXPECT_EQ(any.start, 5);
  EXPECT_EQ(any.chosen.size(), 3u);
  for (const std::size_t i : any.chosen) EXPECT_EQ(loads[i].first, 5);
}

std::vector<std::pair<int, int>> intervals_of(const StripGroup& group) {
  std::vector<std::pair<int, int>> pairs;
  for (const RankInterval& interval : group.ranks) pairs.emplace_back(interval.begin, interval.end);
  return pairs;
}

TEST(NodeStrip, KeepsGroupsInsideNodesAndNodesWhole) {
  StripInput input;
  input.first_rank = 8;
  input.num_ranks = 10;
  input.ranks_per_node = 4;
  NodeStrip strip(input);
  std::vector<RankGap> gaps;
  using Pairs = std::vector<std::pair<int, int>>;
  const auto place = [&](std::int32_t degree, std::int64_t duration, std::int64_t between,
                         std::int64_t planned) {
    return strip.place(
        {.sequence_idx = 0, .degree = degree, .duration = duration, .between = between}, planned, 7,
        gaps);
  };
  EXPECT_EQ(intervals_of(place(2, 100, 400, 0)), (Pairs{{16, 18}})) << "the smallest node";
  const StripGroup wide = place(6, 300, 300, 0);
  EXPECT_EQ(wide.start, 0);
  EXPECT_EQ(wide.ranks.front().end - wide.ranks.front().begin, 4) << "a whole node and a half";
  EXPECT_TRUE(gaps.empty());
  // Two ranks of a node are free; three are there at 100 at the earliest, and in one node at 300.
  const StripGroup late = place(3, 50, 400, 0);
  EXPECT_EQ(late.start, 300);
  const StripGroup crossing = place(4, 500, 600, 0);
  EXPECT_EQ(crossing.start, 100) << "ends before it would in one node";
  EXPECT_EQ(strip.ends().size(), 10u);
  ASSERT_FALSE(gaps.empty());
  for (const RankGap& gap : gaps) EXPECT_EQ(gap.before_group, 7);
}

struct Spread {
  std::int64_t fits = 0;      // groups of at most a node's ranks
  std::int64_t crossing = 0;  // of them
};

Spread spread_of(const StepPlan& plan, const ClusterSpec& cluster) {
  Spread spread;
  for (const Group& group : plan.groups) {
    if (group.ranks.size() > static_cast<std::size_t>(cluster.ranks_per_node)) continue;
    ++spread.fits;
    spread.crossing += cluster.share_node(group.ranks) ? 0 : 1;
  }
  return spread;
}

TEST(NodeHops, GroupsThatFitANodeStayInsideOne) {
  for (const std::int32_t num_ranks : {16, 64, 260}) {
    const auto sequences = testing::draw_lengths(testing::kGithubShares, Tokens(num_ranks * 65'536),
                                                 Tokens(num_ranks * 4096), 3);
    for (const std::size_t count : {std::size_t{200}, sequences.size()}) {
      PlanRequest request = request_of(
          "hdp",
          {sequences.begin(),
           sequences.begin() + static_cast<std::ptrdiff_t>(std::min(count, sequences.size()))},
          num_ranks, 8192);
      request.cost = dear_nics();
      const StepPlan plan = make_plan(request);
      const Spread spread = spread_of(plan, request.cluster);
      fmt::print("{} ranks, {} sequences: {} of {} groups that fit a node leave it, gap {:.2f} %\n",
                 num_ranks, plan.sequences.size(), spread.crossing, spread.fits, 100 * plan.gap());
      EXPECT_LE(10 * spread.crossing, spread.fits);
    }
  }
}

// Half a percent is what a cost model cannot tell apart.
TEST(NodeHops, HdpIsNotSlowerThanStrategiesWhoseGroupsMayStayInsideNodes) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const RandomStream random(seed, "meshes in nodes");
    const auto num_ranks = static_cast<std::int32_t>(4 << random.below(0, 4));
    const auto ranks_per_node = static_cast<std::int32_t>(2 << random.below(1, 3));
    const auto sequences =
        testing::draw_lengths(testing::kGithubShares,
                              Tokens(num_ranks * (4096 << random.below(2, 4))), Tokens(8192), seed);
    PlanRequest request = request_of("static", sequences, num_ranks, 2048);
    request.cluster.ranks_per_node = ranks_per_node;
    request.cost = dear_nics();
    request.cost.fixed_ns /= 4;
    request.options.max_context = Tokens(8192);
    Nanoseconds best(std::int64_t{1} << 62);
    for (const char* strategy : {"static", "sorted", "pow2", "hdp-naive", "hdp-algorithm2"}) {
      request.options.strategy = strategy;
      best = std::min(best, make_plan(request).makespan);
    }
    request.options.strategy = "hdp";
    const StepPlan hdp = make_plan(request);
    EXPECT_LE(ratio(hdp.makespan, best), 1.005)
        << "seed " << seed << ": " << num_ranks << " ranks in nodes of " << ranks_per_node << ", "
        << sequences.size() << " sequences, gap " << hdp.gap();
  }
}

TEST(NodeHops, DeadUnequalAndPipelinedRanksAndOffloadArePlannedWithThem) {
  const auto sequences =
      testing::draw_lengths(testing::kGithubShares, Tokens(1 << 21), Tokens(65'536), 2);
  for (int kind = 0; kind < 5; ++kind) {
    PlanRequest request = request_of("hdp", sequences, 32, 8192);
    request.cost = dear_nics();
    for (std::int32_t r = 0; r < 32; ++r) {
      if (kind == 1) request.cluster.speed.push_back(0.6 + 0.0125 * r);
      if (kind == 2) request.cluster.memory.push_back(r % 3 == 0 ? 0.7 : 1.0);
      if (kind == 3) request.cluster.memory.push_back(r == 5 ? 0.0 : 1.0);
    }
    if (kind == 4) request.cluster.pipeline_stages = 4;
    const Nanoseconds with = make_plan(request).makespan;
    request.cost.node_hop_ns_per_token.reset();
    request.cost.node_hop_fixed_ns.reset();
    const StepPlan without = make_plan(request);
    EXPECT_LE(ratio(with, without.makespan), 1.001) << "kind " << kind;
  }
  PlanRequest request = request_of("hdp", sequences, 32, 8192);
  request.cost = dear_nics();
  request.cost.activation_bytes_per_token = 65'536;
  request.cost.offload_bytes_per_second = 13e9;
  request.options.offload = true;
  const Nanoseconds offloaded = make_plan(request).makespan;
  request.options.offload = false;
  EXPECT_LE(offloaded, equal_makespan(make_plan(request).makespan));
}

TEST(NodeHops, AnExplanationPricesTheRanksThatTheSequenceHas) {
  const CostModel cost = hand_cost_with_nodes();
  const auto exchange = [&](std::int32_t first, std::int32_t second) {
    StepPlan plan = plan_of_two(first, second);
    const ClusterSpec cluster = uniform_cluster(4, 2);
    const Evaluation evaluation = evaluate(plan, cost, cluster);
    plan.makespan = evaluation.makespan;
    const auto about = explain_sequence(plan, evaluation, cost, cluster, 0);
    const auto own = std::find_if(about.alone.begin(), about.alone.end(),
                                  [](const AloneTime& time) { return time.degree == 2; });
    return own->exchange;
  };
  EXPECT_EQ(exchange(0, 1), Nanoseconds(2 + 3));
  EXPECT_EQ(exchange(1, 2), Nanoseconds(5 + 9));
}

}  // namespace
}  // namespace weft
