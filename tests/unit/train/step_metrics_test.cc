#include "train/step_metrics.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

namespace weft {
namespace {

StepMetrics example() {
  StepMetrics metrics;
  metrics.step = 3;
  metrics.loss = 2.5;
  metrics.tokens = 1000_tok;
  metrics.target_tokens = 600;
  return metrics;
}

TEST(StepMetrics, TheJsonLineHasEveryDocumentedKeyOnce) {
  const auto json = nlohmann::json::parse(to_json_line(example()));
  std::set<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.insert(key);
  EXPECT_EQ(keys, (std::set<std::string>{"schema",
                                         "step",
                                         "loss",
                                         "grad_norm",
                                         "lr",
                                         "tokens",
                                         "target_tokens",
                                         "padded_tokens",
                                         "tokens_per_s",
                                         "mfu",
                                         "step_s",
                                         "plan_s",
                                         "data_s",
                                         "forward_s",
                                         "backward_s",
                                         "exchange_s",
                                         "offload_s",
                                         "reduce_s",
                                         "optimizer_s",
                                         "imbalance",
                                         "slowest_rank",
                                         "gap",
                                         "predicted_s",
                                         "exchange_bytes",
                                         "reduce_bytes",
                                         "offload_bytes",
                                         "peak_bytes",
                                         "predicted_peak_bytes",
                                         "resident_bytes",
                                         "data_allocations",
                                         "forward_allocations",
                                         "backward_allocations",
                                         "other_allocations",
                                         "sharded_sequences",
                                         "max_degree",
                                         "skipped_steps",
                                         "dropped_sequences",
                                         "plan_hash",
                                         "resumed_at"}));
  EXPECT_EQ(json["loss"], 2.5);
  EXPECT_EQ(json["tokens"], 1000);
  EXPECT_EQ(to_json_line(example()).find('\n'), std::string::npos);
}

TEST(StepMetrics, ALossThatDoesNotExistIsNull) {
  StepMetrics metrics = example();
  metrics.loss = std::numeric_limits<double>::quiet_NaN();
  metrics.grad_norm = std::numeric_limits<double>::infinity();
  const auto json = nlohmann::json::parse(to_json_line(metrics));
  EXPECT_TRUE(json["loss"].is_null());
  EXPECT_TRUE(json["grad_norm"].is_null());
}

TEST(StepMetrics, RankMeasuresMergeByMeanMaxAndSum) {
  std::vector<RankMeasures> ranks(2);
  ranks[0].times.step_s = ranks[1].times.step_s = 4;
  ranks[0].times[Phase::kForward] = 1;
  ranks[1].times[Phase::kForward] = 3;
  ranks[0].times.busy_s = 1;
  ranks[1].times.busy_s = 3;
  ranks[0].exchange_bytes = 10_B;
  ranks[1].exchange_bytes = 20_B;
  ranks[0].reduce_bytes = 1_B;
  ranks[1].reduce_bytes = 2_B;
  ranks[0].offload_bytes = 3_B;
  ranks[1].offload_bytes = 4_B;
  ranks[0].peak_bytes = 7_B;
  ranks[1].peak_bytes = 5_B;
  ranks[0].resident_bytes = 8_B;
  ranks[1].resident_bytes = 9_B;
  ranks[0].times.allocations[static_cast<std::size_t>(Phase::kForward)] = 11;
  ranks[1].times.allocations[static_cast<std::size_t>(Phase::kForward)] = 12;
  ranks[1].times.allocations[static_cast<std::size_t>(Phase::kReduce)] = 1;
  StepMetrics metrics;
  merge_rank_measures(ranks, metrics);
  EXPECT_DOUBLE_EQ(metrics.times.step_s, 4);
  EXPECT_DOUBLE_EQ(metrics.times[Phase::kForward], 2);
  EXPECT_DOUBLE_EQ(metrics.imbalance, 1.5);
  EXPECT_EQ(metrics.slowest_rank, Rank(1));
  EXPECT_EQ(metrics.exchange_bytes, 30_B);
  EXPECT_EQ(metrics.reduce_bytes, 3_B);
  EXPECT_EQ(metrics.offload_bytes, 7_B);
  EXPECT_EQ(metrics.peak_bytes, 7_B);
  EXPECT_EQ(metrics.resident_bytes, 9_B);
  const auto json = nlohmann::json::parse(to_json_line(metrics));
  EXPECT_EQ(json["forward_allocations"], 23);
  EXPECT_EQ(json["backward_allocations"], 0);
  EXPECT_EQ(json["other_allocations"], 1);
}

// 1000 real tokens, 600 targets on two ranks that share the sequence: counted once, not once per
// rank.
TEST(StepMetrics, ASharedSequenceCountsItsTokensOnce) {
  StepPlan plan;
  plan.num_ranks = 2;
  plan.sequences = {{.id = 0, .tokens = 1000_tok, .num_targets = 600}};
  plan.groups = {{.sequence_idx = 0, .slot_idx = 0, .ranks = {Rank(0), Rank(1)}}};
  StepMetrics metrics;
  describe_plan(plan, metrics);
  EXPECT_EQ(metrics.tokens, 1000_tok);
  EXPECT_EQ(metrics.target_tokens, 600);
  EXPECT_EQ(metrics.padded_tokens, 0_tok);
  EXPECT_EQ(metrics.sharded_sequences, 1);
  EXPECT_EQ(metrics.max_degree, 2);
}

}  // namespace
}  // namespace weft
