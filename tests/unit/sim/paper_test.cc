#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "plan/evaluate.h"
#include "plan/validate.h"
#include "sim/paper_claims.h"
#include "sim/paper_figure17.h"
#include "sim/paper_setup.h"

namespace weft {
namespace {

TEST(PaperPanels, Hold96LabelsOfSixModelsEachAboveOneAndBalancedAboveNaive) {
  std::set<std::string> models;
  ASSERT_EQ(paper_panels().size(), 12u);
  for (const PaperPanel& panel : paper_panels()) {
    models.insert(panel.model);
    for (std::size_t c = 0; c < 4; ++c) {
      EXPECT_GT(panel.naive[c], 1);
      EXPECT_GT(panel.balanced[c], panel.naive[c]);
    }
  }
  EXPECT_EQ(models.size(), 6u);
  EXPECT_EQ(std::count_if(paper_panels().begin(), paper_panels().end(),
                          [](const PaperPanel& panel) { return panel.is_calibration(); }),
            1);
}

TEST(PaperMesh, OneRuleGivesTheStrategiesThatThePaperNames) {
  const ClusterDescription cluster = paper_cluster({});
  for (const PaperPanel& panel : paper_panels()) {
    const Mesh mesh = paper_mesh(find_model(panel.model), cluster, panel.num_devices);
    EXPECT_EQ(mesh.pipeline == 1, panel.is_dp_balance) << panel.model;
    EXPECT_EQ(mesh.num_devices(), panel.num_devices);
    EXPECT_GE(mesh.num_ranks * kPaperCapacity.value(), kPaperContexts.back().value())
        << "the longest context fits on all ranks";
  }
  EXPECT_EQ(paper_mesh(find_model("llama-7b"), cluster, 1024), (Mesh{512, 2, 1}))
      << "what token accounting demands (bytes of the case study)";
}

// All its ranks have it as the same micro-batch: packs fill every rank that a time step leaves, as
// long as there are any.
void expect_one_time_step(const StepPlan& plan, const Group& group) {
  std::set<std::size_t> places;
  for (const Rank rank : group.ranks) {
    const auto& list = plan.ranks[static_cast<std::size_t>(rank.value())];
    const auto found = std::find_if(list.begin(), list.end(), [&](const MicroBatch& m) {
      return m.slot_idx == group.slot_idx;
    });
    places.insert(static_cast<std::size_t>(found - list.begin()));
  }
  EXPECT_EQ(places.size(), 1u) << "slot " << group.slot_idx;
}

TEST(PaperPipelines, AreInterleavedForAllStrategiesAlike) {
  for (const PaperPanel& panel : paper_panels()) {
    const Scenario scenario = paper_scenario(panel.model, panel.num_devices, {});
    EXPECT_EQ(scenario.setup.virtual_stages, panel.is_dp_balance ? 1 : kPaperVirtualStages);
  }
}

TEST(PaperNaivePlan, IsValidAndLeavesTheOrderOfTheBatch) {
  const Scenario scenario = paper_scenario("llama-7b", 1024, {});
  PlanRequest request = plan_request(scenario, {.capacity = kPaperCapacity, .max_context = {}});
  request.sequences = paper_sequences("byted", kPaperContexts[0], 0);
  for (const bool offload : {false, true}) {
    const StepPlan plan = paper_naive_plan(request, offload);
    validate(plan);
    EXPECT_EQ(plan, paper_naive_plan(request, offload));
    std::int64_t previous = -1;
    std::int32_t next = 0;
    for (const Group& group : plan.groups) {
      const std::int64_t id = plan.sequences[static_cast<std::size_t>(group.sequence_idx)].id;
      EXPECT_GT(id, previous) << "shared sequences come as the batch brings them";
      previous = id;
      const std::int32_t first = group.ranks.front().value();
      EXPECT_TRUE(offload || first == next || first == 0) << "on the next ranks";
      EXPECT_TRUE(offload || first == next ||
                  next + static_cast<std::int32_t>(group.ranks.size()) > plan.num_ranks)
          << "a new time step only where the last one has too few";
      next = group.ranks.back().value() + 1;
      EXPECT_LE(next, plan.num_ranks);
      expect_one_time_step(plan, group);
    }
    const Evaluation evaluation = evaluate(plan, request.cost, request.cluster);
    EXPECT_EQ(evaluation.offloaded_micro_batches > 0, offload);
    EXPECT_EQ(evaluation.exposed_copies, 0_ns) << "ratios are free";
  }
}

PaperFigure17 figure_of(const std::vector<std::pair<double, double>>& predicted_and_published) {
  PaperFigure17 figure;
  for (const auto& [predicted, published] : predicted_and_published)
    figure.labels.push_back({.published = published, .predicted = predicted});
  return figure;
}

TEST(PaperErrors, AreMeansOverHeldOutLabelsThatAreWanted) {
  PaperFigure17 figure = figure_of({{1.1, 1.0}, {1.8, 2.0}, {0.9, 1.2}, {9, 3}});
  figure.labels.back().is_calibration = true;
  const PaperErrors errors = errors_of(figure, [](const PaperLabel&) { return true; });
  EXPECT_EQ(errors.num_labels, 3);
  EXPECT_NEAR(errors.mean_abs_error, (0.1 + 0.1 + 0.25) / 3, 1e-12);
  EXPECT_EQ(errors.num_slower, 1);
  EXPECT_EQ(errors_of(figure, [](const PaperLabel&) { return false; }).num_labels, 0);
}

TEST(RankCorrelation, IsSpearmansWithMeanRanksForTies) {
  EXPECT_DOUBLE_EQ(rank_correlation({1, 2, 3}, {10, 20, 90}), 1);
  EXPECT_DOUBLE_EQ(rank_correlation({1, 2, 3}, {3, 2, 1}), -1);
  // Ranks 0, 1, 2, 3 against 0, 2, 1, 3: 1 - 6 * 2 / (4 * 15).
  EXPECT_DOUBLE_EQ(rank_correlation({1, 2, 3, 4}, {1, 3, 2, 4}), 0.8);
  // Ties: ranks 0.5, 0.5, 2 against 0, 1, 2.
  EXPECT_NEAR(rank_correlation({5, 5, 7}, {1, 2, 3}), std::sqrt(0.75), 1e-12);
  EXPECT_EQ(rank_correlation({1}, {1}), 0);
  EXPECT_EQ(rank_correlation({1, 1}, {1, 2}), 0);
}

TEST(PaperClaims, WhatIsExactIsExact) {
  for (const PaperClaim& claim : predict_degrees())
    EXPECT_EQ(claim.predicted, claim.published) << claim.name;
}

TEST(PaperClaims, TheCurveOfOffloadFollowsFromOneFreeRatio) {
  for (const PaperClaim& claim : predict_offload_curve())
    EXPECT_NEAR(claim.error(), 0, 0.09) << claim.name;
}

TEST(PaperClaims, InTheAblationDynamicCommunicationHelpsAndBalanceMore) {
  PaperRunOptions options;
  options.num_steps = 1;
  const std::vector<PaperClaim> claims = predict_ablation(options);
  ASSERT_EQ(claims.size(), 3u);
  EXPECT_GT(claims[0].predicted, 1);
  EXPECT_GT(claims[2].predicted, std::max(claims[0].predicted, claims[1].predicted));
  for (const PaperClaim& claim : claims) EXPECT_NEAR(claim.error(), 0, 0.35) << claim.name;
}

}  // namespace
}  // namespace weft
