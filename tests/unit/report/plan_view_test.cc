#include "report/plan_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "base/error.h"
#include "cost/reference_cost.h"
#include "plan/plan_codec.h"
#include "plan/planner.h"
#include "report/plan_trace.h"

namespace weft {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

PlanRequest request_of(const std::vector<std::int64_t>& lengths, std::int32_t num_ranks) {
  PlanRequest request;
  for (const std::int64_t tokens : lengths) {
    request.sequences.push_back({.id = 100 + static_cast<std::int64_t>(request.sequences.size()),
                                 .tokens = Tokens(tokens),
                                 .num_targets = tokens - 1});
  }
  request.cluster = uniform_cluster(num_ranks, 8);
  request.cost = reference_cost_7b();
  request.options.capacity = Tokens(1024);
  return request;
}

PlanRequest mixed_request() {
  return request_of({4000, 2100, 1500, 900, 700, 640, 300, 300, 120, 64, 17, 5, 1}, 7);
}

double total(const TimeSplit& split) {
  const auto all = values(split);
  return std::accumulate(all.begin(), all.end(), 0.0);
}

TEST(PlanView, BoxesHoldEveryTokenOfEveryStrategysPlan) {
  for (const std::string& strategy : strategy_names()) {
    PlanRequest request = mixed_request();
    request.options.strategy = strategy;
    const StepPlan plan = make_plan(request);
    const PlanView view = view_plan(plan, request.cost, strategy);
    ASSERT_EQ(view.first_box.size(), 8U) << strategy;
    std::int64_t in_boxes = 0, in_parts = 0;
    for (const PlanBox& box : view.boxes) in_boxes += box.tokens.value();
    for (const BoxPart& part : view.parts) in_parts += part.tokens.value();
    std::int64_t in_rings = 0, num_shared = 0, in_groups = 0;
    for (const SharedRing& ring : view.rings) {
      in_rings += ring.tokens.value();
      num_shared += ring.num_sequences;
    }
    for (const Group& group : plan.groups)
      in_groups += plan.sequences[static_cast<std::size_t>(group.sequence_idx)].tokens.value();
    EXPECT_EQ(in_rings, in_groups) << strategy;
    EXPECT_EQ(num_shared, std::ssize(plan.groups)) << strategy;
    EXPECT_EQ(in_boxes, view.tokens.value()) << strategy;
    EXPECT_EQ(in_parts, view.tokens.value()) << strategy;
    EXPECT_EQ(view.lengths.num_tokens(), view.tokens) << strategy;
    EXPECT_EQ(view.lengths.num_samples(), 13) << strategy;
    EXPECT_EQ(view.evaluation.makespan, plan.makespan) << strategy;
    EXPECT_THAT(view.notes, IsEmpty()) << strategy;
  }
}

TEST(PlanView, RingsInsideANodeHaveItsHops) {
  PlanRequest request = mixed_request();
  request.cost.hop_ns_per_token *= 10;
  request.cost.node_hop_ns_per_token = 0;
  request.cluster.ranks_per_node = 2;
  const StepPlan plan = make_plan(request);
  const PlanView view = view_plan(plan, request.cost, "nodes", 2);
  EXPECT_EQ(view.evaluation.makespan, plan.makespan);
  EXPECT_THAT(view.notes, IsEmpty());
  EXPECT_GT(view.split.exposed_exchange,
            view_plan(plan, request.cost, "one node", 8).split.exposed_exchange);
}

TEST(PlanView, TimeSplitAddsUpToAllRanksTime) {
  for (const std::string& strategy : strategy_names()) {
    PlanRequest request = mixed_request();
    request.options.strategy = strategy;
    const PlanView view = view_plan(make_plan(request), request.cost, strategy);
    const auto makespan = static_cast<double>(view.evaluation.makespan.value());
    EXPECT_NEAR(total(view.split), 7 * makespan, 1e-9 * makespan) << strategy;
    const double idle = view.split.wait_in_slot + view.split.wait_for_slot + view.split.after_last;
    EXPECT_NEAR(idle / (7 * makespan), view.evaluation.idle_share, 1e-9) << strategy;
    for (const double part : values(view.split)) EXPECT_GE(part, 0) << strategy;
  }
}

TEST(PlanView, HandCheckedPlanOfTwoRanks) {
  // Two sequences of one token count on ranks of their own, a third one leaves rank 1 idle.
  PlanRequest request = request_of({1000, 1000, 1000}, 2);
  request.options.strategy = "hdp-naive";
  request.cost.fixed_ns = 0;
  const PlanView view = view_plan(make_plan(request), request.cost, "three");
  ASSERT_EQ(view.boxes.size(), 3U);
  const auto own = static_cast<double>(view.boxes[0].own_time.value());
  EXPECT_EQ(view.split.compute, 3 * own);
  EXPECT_EQ(view.split.after_last, own);
  EXPECT_EQ(view.split.wait_in_slot + view.split.wait_for_slot, 0);
  EXPECT_DOUBLE_EQ(view.evaluation.idle_share, 0.25);
  EXPECT_THAT(view.rings, IsEmpty());
  for (const BoxPart& part : view.parts) {
    EXPECT_EQ(part.permille, 1000);
    EXPECT_EQ(part.num_sequences, 1);
  }
}

TEST(PlanView, PartsOfABoxShareItsTimeByTheirWork) {
  PlanRequest request = mixed_request();
  const PlanView view = view_plan(make_plan(request), request.cost, "hdp");
  for (std::size_t b = 0; b < view.boxes.size(); ++b) {
    const std::size_t end =
        b + 1 < view.boxes.size() ? view.boxes[b + 1].first_part : view.parts.size();
    std::int32_t sum = 0;
    for (std::size_t p = view.boxes[b].first_part; p < end; ++p) sum += view.parts[p].permille;
    EXPECT_NEAR(sum, 1000, static_cast<double>(end - view.boxes[b].first_part)) << b;
  }
}

TEST(PlanView, APackThatIsSharedAsAWholeIsOneRing) {
  PlanRequest request = mixed_request();
  request.options.strategy = "static";
  const StepPlan plan = make_plan(request);
  const PlanView view = view_plan(plan, request.cost, "static");
  ASSERT_LT(view.rings.size(), plan.groups.size());
  for (const SharedRing& ring : view.rings) {
    for (const Group& group : plan.groups) {
      const SequenceSpec& s = plan.sequences[static_cast<std::size_t>(group.sequence_idx)];
      if (s.id != ring.longest_id) continue;
      EXPECT_EQ(ring.degree, std::ssize(group.ranks));
      EXPECT_LE(s.tokens, ring.tokens);
    }
  }
}

TEST(PlanView, AnEmptyPlanIsShownAsOne) {
  PlanRequest request = request_of({}, 3);
  const PlanView view = view_plan(make_plan(request), request.cost, "empty");
  EXPECT_THAT(view.boxes, IsEmpty());
  EXPECT_EQ(view.evaluation.makespan, Nanoseconds(0));
  EXPECT_EQ(total(view.split), 0);
  EXPECT_TRUE(nlohmann::json::accept(plan_json(view)));
}

TEST(PlanView, PipelinesAndOffloadAreShownWithTheirTimes) {
  PlanRequest pipelines = mixed_request();
  pipelines.cluster.pipeline_stages = 4;
  const PlanView view = view_plan(make_plan(pipelines), pipelines.cost, "pipelines");
  const auto makespan = static_cast<double>(view.evaluation.makespan.value());
  EXPECT_NEAR(total(view.split), 7 * makespan, 1e-9 * makespan);
  EXPECT_THAT(view.notes, Contains(HasSubstr("pipeline of 4 stages")));

  PlanRequest request = mixed_request();
  StepPlan plan = make_plan(request);
  plan.ranks[0][0].offload_ratio = 0.5;
  request.cost.activation_bytes_per_token = 65536;
  request.cost.offload_bytes_per_second = 1e6;  // too slow to hide
  const PlanView offloaded = view_plan(plan, request.cost, "offload");
  EXPECT_EQ(offloaded.boxes[0].offload_ratio, 0.5);
  EXPECT_GT(offloaded.split.exposed_copies, 0);
  EXPECT_EQ(offloaded.split.exposed_copies,
            static_cast<double>(offloaded.evaluation.exposed_copies.value()));
}

TEST(PlanView, AnotherCostThanThePlansOwnIsSaid) {
  PlanRequest request = mixed_request();
  const StepPlan plan = make_plan(request);
  CostModel other = request.cost;
  other.name = "twice";
  other.linear_ns_per_token *= 2;
  const PlanView view = view_plan(plan, other, "plan");
  EXPECT_NE(view.evaluation.makespan, plan.makespan);
  EXPECT_THAT(view.notes, Contains(HasSubstr("under the cost 'twice'")));
}

TEST(PlanView, ADamagedPlanIsRefused) {
  StepPlan plan = make_plan(mixed_request());
  plan.ranks[0].clear();
  EXPECT_THROW(view_plan(plan, reference_cost_7b(), "damaged"), UserError);
}

TEST(PlanJson, ColumnsHoldTheView) {
  PlanRequest request = mixed_request();
  const StepPlan plan = make_plan(request);
  const PlanView view = view_plan(plan, request.cost, "a \"name\"");
  const auto json = nlohmann::json::parse(plan_json(view));
  EXPECT_EQ(json["name"], "a \"name\"");
  EXPECT_EQ(json["hash"], plan_hash(plan).hex());
  EXPECT_EQ(json["makespan_ns"], plan.makespan.value());
  EXPECT_EQ(json["bound_ns"], plan.lower_bound.value());
  EXPECT_EQ(json["gap"], plan.gap());
  EXPECT_EQ(json["idle_share"], view.evaluation.idle_share);
  EXPECT_EQ(json["shared"], plan.groups.size());
  ASSERT_EQ(json["box_own"].size(), view.boxes.size());
  for (std::size_t b = 0; b < view.boxes.size(); ++b) {
    EXPECT_EQ(json["box_own"][b], view.boxes[b].own_time.value());
    EXPECT_EQ(json["box_slot"][b], view.boxes[b].slot_idx);
    EXPECT_EQ(json["box_tokens"][b], view.boxes[b].tokens.value());
  }
  for (std::size_t r = 0; r < 7; ++r)
    EXPECT_EQ(json["rank_busy"][r], view.evaluation.ranks[r].busy.value());
  EXPECT_EQ(json["first_box"].size(), 8U);
  EXPECT_EQ(json["split"]["compute"], view.split.compute);
}

TEST(PlanTrace, HasAnEventForEachMicroBatchWithItsTime) {
  PlanRequest request = mixed_request();
  const PlanView view = view_plan(make_plan(request), request.cost, "trace");
  std::ostringstream text;
  write_plan_trace(text, view);
  const auto json = nlohmann::json::parse(text.str());
  std::size_t num_events = 0;
  double last = 0;
  for (const auto& event : json["traceEvents"]) {
    if (event["ph"] != "X") continue;
    const PlanBox& box = view.boxes[num_events++];
    EXPECT_EQ(event["args"]["tokens"], box.tokens.value());
    EXPECT_NEAR(event["dur"].get<double>() * 1e3, static_cast<double>(box.own_time.value()), 1);
    last = std::max(last, event["ts"].get<double>() + event["dur"].get<double>());
  }
  EXPECT_EQ(num_events, view.boxes.size());
  EXPECT_NEAR(last * 1e3, static_cast<double>(view.evaluation.makespan.value()), 2);
}

}  // namespace
}  // namespace weft
