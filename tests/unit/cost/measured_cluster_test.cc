#include "cost/measured_cluster.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "cost/shape_cost.h"

namespace weft {
namespace {

ModelShape small_model() {
  return {.name = "small",
          .source = "test",
          .num_layers = 3,
          .hidden_size = 64,
          .num_heads = 4,
          .num_kv_heads = 2,
          .head_dim = 16,
          .intermediate_size = 160,
          .vocab_size = 1000};
}

CostModel profiled_cost(const ModelShape& model) {
  CostModel cost{.name = "measured",
                 .source = "test",
                 .num_layers = 3,
                 .attention_ns_per_pair = 4.5,
                 .linear_ns_per_token = 3000,
                 .hop_ns_per_token = 250,
                 .hop_fixed_ns = 7000};
  cost.kv_bytes_per_token = kv_bytes_per_token(model, 4);
  cost.optimizer_ns_per_byte = 0.2;
  return cost;
}

constexpr MeasuredMachine kMachine{.num_devices = 6,
                                   .peak_flops_per_second = 200e9,
                                   .memory_bytes = 60e9,
                                   .disk_bytes_per_second = 3e9,
                                   .disk_free_bytes = 1e12};

TEST(MeasuredCluster, GivesTheProfilesOwnTimesBackForItsModel) {
  const ModelShape model = small_model();
  const CostModel measured = profiled_cost(model);
  const ClusterDescription cluster = measured_cluster("here", model, measured, kMachine);
  validate(cluster, "test");
  TrainingSetup setup{.mesh = {.num_ranks = 6}};
  set_dtype(setup, "float32", "test");
  const CostModel cost = cost_from_shape(model, cluster, setup);
  EXPECT_NEAR(cost.attention_ns_per_pair, 4.5, 1e-9);
  EXPECT_NEAR(cost.linear_ns_per_token, 3000, 1e-6);
  EXPECT_NEAR(cost.hop_ns_per_token, 250, 1e-9);
  EXPECT_EQ(cost.hop_fixed_ns, 7000);
  EXPECT_EQ(cost.kv_bytes_per_token, measured.kv_bytes_per_token);
  EXPECT_EQ(cluster.devices_per_node, 6);
  EXPECT_EQ(cluster.memory_bytes, 10e9);
  EXPECT_EQ(cost.offload_bytes_per_second, 0.5e9);
  // The update of the simulator: moments of 8 bytes for each 4 bytes of gradients, both ways.
  EXPECT_NEAR(2 * 2 / cluster.memory_bytes_per_second * 1e9, 0.2, 1e-12);
}

TEST(MeasuredCluster, EveryValueHasASource) {
  const ClusterDescription cluster =
      measured_cluster("here", small_model(), profiled_cost(small_model()), kMachine);
  for (const char* key : {"peak_flops_per_second", "gemm_share", "attention_share", "memory_bytes",
                          "memory_bytes_per_second", "node_link_bytes_per_second",
                          "node_link_latency_ns", "nic_bytes_per_second", "nic_latency_ns",
                          "nics_per_node", "host_link_bytes_per_second", "host_memory_bytes"})
    EXPECT_THAT(cluster.sources, testing::Contains(testing::Key(key)));
}

TEST(MeasuredCluster, RatesThatCannotBeAreRefused) {
  const auto refusal = [](CostModel cost) {
    try {
      measured_cluster("here", small_model(), cost, kMachine);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CostModel cost = profiled_cost(small_model());
  cost.linear_ns_per_token = 0.1;
  EXPECT_THAT(refusal(cost), testing::HasSubstr("what grows with tokens runs at"));
  cost = profiled_cost(small_model());
  cost.attention_ns_per_pair = 0;
  EXPECT_THAT(refusal(cost), testing::HasSubstr("attention runs at 0"));
  cost = profiled_cost(small_model());
  cost.hop_ns_per_token = 0;
  EXPECT_THAT(refusal(cost), testing::HasSubstr("a hop 0 ns a token"));
}

TEST(TrainingDtype, Float32HasNoMasterCopiesAndOtherNamesAreRefused) {
  TrainingSetup setup;
  set_dtype(setup, "float32", "--dtype");
  EXPECT_EQ(setup.weight_bytes + setup.gradient_bytes + setup.optimizer_bytes, 16);
  EXPECT_EQ(setup.element_bytes, 4);
  const ModelShape model = small_model();
  EXPECT_EQ(device_memory(model, setup).logits_per_token, 4000);
  EXPECT_EQ(activation_bytes_per_layer(model, setup), activation_bytes_per_token(model, 4));
  set_dtype(setup, "bfloat16", "--dtype");
  EXPECT_EQ(setup, TrainingSetup());
  EXPECT_THROW(set_dtype(setup, "fp8", "--dtype"), UserError);
}

}  // namespace
}  // namespace weft
