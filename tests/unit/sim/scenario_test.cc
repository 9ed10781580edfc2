#include "sim/scenario.h"

#include <gtest/gtest.h>

#include "cluster/cluster_presets.h"

namespace weft {
namespace {

std::vector<SequenceSpec> sequences_of(int count, std::int64_t tokens) {
  std::vector<SequenceSpec> sequences;
  for (int i = 0; i < count; ++i)
    sequences.push_back({.id = i, .tokens = Tokens(tokens), .num_targets = tokens - 1});
  return sequences;
}

Scenario scenario_of(std::int64_t devices, std::int64_t tensor, std::int64_t pipeline) {
  const ClusterDescription cluster = find_cluster("h800");
  TrainingSetup setup;
  setup.mesh = mesh_of_devices(cluster, devices, tensor, pipeline);
  return make_scenario(find_model("llama-7b"), cluster, setup);
}

StepOutlook outlook_of(const Scenario& scenario, std::vector<SequenceSpec> sequences,
                       Tokens capacity) {
  PlanRequest request =
      plan_request(scenario, {.strategy = "hdp", .capacity = capacity, .max_context = {}});
  request.sequences = std::move(sequences);
  return look_ahead(scenario, make_plan(request), false);
}

TEST(Scenario, FullBusyDevicesReachTheSharesOfThePeakThatTheClusterStates) {
  Scenario scenario = scenario_of(8, 1, 1);
  scenario.cost.fixed_ns = 0;
  scenario.setup.gradient_bytes = 0;
  scenario.cost.backward_ratio = 2;
  const StepOutlook outlook = outlook_of(scenario, sequences_of(64, 4096), 4096_tok);
  EXPECT_GT(outlook.mfu, 0.98 * 0.55);
  EXPECT_LT(outlook.mfu, 0.7);
  EXPECT_NEAR(outlook.tokens_per_second, 64 * 4096 / outlook.step_s, 1e-6);
  EXPECT_NEAR(outlook.device_hours_per_billion_tokens, 1e9 / outlook.tokens_per_second * 8 / 3600,
              1e-9);
}

TEST(Scenario, PeakMemoryIsStatesAndActivationsOfTheLargestMicroBatch) {
  const Scenario scenario = scenario_of(8, 2, 1);
  const StepOutlook outlook = outlook_of(scenario, sequences_of(8, 3000), 4096_tok);
  EXPECT_NEAR(outlook.peak_bytes, device_memory(scenario.model, scenario.setup).total(3000_tok), 1);
  EXPECT_TRUE(outlook.fits);
  EXPECT_FALSE(outlook_of(scenario, sequences_of(8, 40'000), 40'960_tok).fits);
}

TEST(Scenario, PipelinesHoldWhatTheMemoryCountSays) {
  const Scenario scenario = scenario_of(16, 2, 4);
  const StepOutlook outlook = outlook_of(scenario, sequences_of(16, 2000), 2048_tok);
  const DeviceMemory memory = device_memory(scenario.model, scenario.setup);
  EXPECT_NEAR(outlook.peak_bytes, memory.states() + memory.activations_per_token * 2000, 1)
      << "the first stage, with four micro-batches in flight";
}

TEST(Scenario, PipelinesOfChunksHoldWhatTheMemoryCountSays) {
  Scenario scenario = scenario_of(16, 2, 4);
  const double plain = device_memory(scenario.model, scenario.setup).activations_per_token;
  const double plain_peak = outlook_of(scenario, sequences_of(32, 2000), 2048_tok).peak_bytes;
  for (const std::int64_t chunks : {2, 4, 8}) {
    scenario.setup.virtual_stages = chunks;
    scenario = make_scenario(scenario.model, scenario.cluster, scenario.setup);
    const StepOutlook outlook = outlook_of(scenario, sequences_of(32, 2000), 2048_tok);
    const DeviceMemory memory = device_memory(scenario.model, scenario.setup);
    EXPECT_NEAR(memory.activations_per_token / plain, 1 + 3.0 / (4 * static_cast<double>(chunks)),
                1e-12)
        << "(p - 1) / (p V) more than without chunks";
    EXPECT_NEAR(outlook.peak_bytes, memory.states() + memory.activations_per_token * 2000, 1);
    EXPECT_GT(outlook.peak_bytes, plain_peak);
    EXPECT_EQ(outlook.timeline.virtual_stages, chunks);
    EXPECT_LT(largest_capacity(scenario.model, scenario.cluster, scenario.setup),
              largest_capacity(scenario.model, scenario.cluster, scenario_of(16, 2, 4).setup));
  }
}

TEST(Scenario, SlowerLinksOnlyMatterWhereTheExchangeIsExposed) {
  Scenario scenario = scenario_of(32, 1, 1);
  const auto time = [&](double scale, const std::vector<SequenceSpec>& sequences) {
    Scenario scaled = scenario;
    scaled.cluster.nic_bytes_per_second *= scale;
    scaled.cluster.node_link_bytes_per_second *= scale;
    scaled.setup.gradient_bytes = 0;
    scaled = make_scenario(scaled.model, scaled.cluster, scaled.setup);
    return outlook_of(scaled, sequences, 4096_tok);
  };
  const auto whole = sequences_of(64, 4096);
  EXPECT_DOUBLE_EQ(time(0.01, whole).step_s, time(1, whole).step_s) << "nothing is shared";
  const auto shared = sequences_of(2, 65536);
  EXPECT_GT(time(0.1, shared).step_s, 1.2 * time(1, shared).step_s);
  EXPECT_GT(time(0.01, shared).step_s, 5 * time(0.1, shared).step_s);
  EXPECT_GT(time(0.01, shared).timeline.split.exposed_exchange, 0.8);
}

}  // namespace
}  // namespace weft
