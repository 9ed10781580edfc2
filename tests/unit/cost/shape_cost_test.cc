#include "cost/shape_cost.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "cluster/cluster_presets.h"

namespace weft {
namespace {

TrainingSetup setup_of(std::int64_t ranks, std::int64_t tensor, std::int64_t pipeline) {
  return {.mesh = {.num_ranks = ranks, .tensor = tensor, .pipeline = pipeline}};
}

// Rates that make every quotient a round number.
ClusterDescription round_cluster() {
  ClusterDescription cluster = find_cluster("a100-80g");
  cluster.peak_flops_per_second = 1e12;
  cluster.gemm_share = 0.5;
  cluster.attention_share = 0.25;
  cluster.node_link_bytes_per_second = 100e9;
  cluster.nic_bytes_per_second = 10e9;
  cluster.node_link_share = cluster.nic_share = 1;
  return cluster;
}

TEST(ShapeCost, TimesAreFlopsAndBytesOverTheRatesReached) {
  const ModelShape model = find_model("llama-7b");
  const CostModel cost = cost_from_shape(model, round_cluster(), setup_of(64, 1, 1));
  EXPECT_EQ(cost.num_layers, 32);
  const double head = head_flops_per_token(model) / 32;
  EXPECT_DOUBLE_EQ(cost.linear_ns_per_token, (layer_flops_per_token(model) + head) / 500);
  EXPECT_DOUBLE_EQ(cost.attention_ns_per_pair, layer_flops_per_pair(model) / 250);
  EXPECT_DOUBLE_EQ(cost.hop_ns_per_token, 4096 / 10.0) << "8 heads of 128, twice, over 10 GB/s";
  EXPECT_EQ(cost.hop_fixed_ns, round_cluster().nic_latency_ns);
}

TEST(ShapeCost, TensorParallelismDividesComputeAndAddsItsCollectives) {
  const ModelShape model = find_model("llama-7b");
  const CostModel one = cost_from_shape(model, round_cluster(), setup_of(64, 1, 1));
  const CostModel four = cost_from_shape(model, round_cluster(), setup_of(16, 4, 1));
  EXPECT_DOUBLE_EQ(four.attention_ns_per_pair, one.attention_ns_per_pair / 4);
  // Two gathers and two scatters of 4096 elements of 2 bytes, three quarters of it sent.
  EXPECT_NEAR(four.linear_ns_per_token, one.linear_ns_per_token / 4 + 4 * 8192 * 0.75 / 100, 1e-9);
  EXPECT_DOUBLE_EQ(four.hop_ns_per_token, one.hop_ns_per_token / 4);
}

TEST(ShapeCost, RanksOfOneNodeHopOverItsLinksAndDevicesBeyondTheNicsShareThem) {
  const ModelShape model = find_model("llama-7b");
  ClusterDescription cluster = round_cluster();
  EXPECT_DOUBLE_EQ(cost_from_shape(model, cluster, setup_of(8, 1, 1)).hop_ns_per_token,
                   4096 / 100.0);
  cluster.nics_per_node = 2;
  EXPECT_DOUBLE_EQ(nic_hop(model, cluster, setup_of(8, 2, 1)).ns_per_token, 4096 / 2 / 10.0);
  EXPECT_DOUBLE_EQ(nic_hop(model, cluster, setup_of(8, 8, 1)).ns_per_token, 4096 / 8 / 2.5);
}

TEST(ShapeCost, RingsInsideANodeHopOverItsLinksWhereTheseAreFaster) {
  const ModelShape model = find_model("llama-7b");
  ClusterDescription cluster = round_cluster();
  const CostModel cost = cost_from_shape(model, cluster, setup_of(64, 1, 1));
  EXPECT_DOUBLE_EQ(cost.hop(true).ns_per_token, 4096 / 100.0);
  EXPECT_EQ(cost.hop(true).fixed_ns, cluster.node_link_latency_ns);
  EXPECT_DOUBLE_EQ(cost.hop(false).ns_per_token, 4096 / 10.0);
  EXPECT_FALSE(cost_from_shape(model, cluster, setup_of(8, 1, 1)).has_node_hops()) << "one node";
  cluster.node_link_bytes_per_second = 1e9;
  EXPECT_EQ(cost_from_shape(model, cluster, setup_of(64, 1, 1)).hop(true).ns_per_token,
            cost.hop_ns_per_token)
      << "slower than the NICs, which are there as well";
}

TEST(ShapeCost, MoreDevicesThanKeyHeadsSendEachHeadMoreThanOnce) {
  ModelShape model = find_model("llama-7b");
  model.num_kv_heads = 2;
  const ClusterDescription cluster = round_cluster();
  const double two = nic_hop(model, cluster, setup_of(8, 2, 1)).ns_per_token;
  EXPECT_DOUBLE_EQ(nic_hop(model, cluster, setup_of(8, 8, 1)).ns_per_token, two);
}

TEST(ShapeCost, RecomputingEverythingAddsAForwardPassAndKeepsInputsOnly) {
  const ModelShape model = find_model("llama-13b");
  TrainingSetup setup = setup_of(16, 4, 1);
  const CostModel kept = cost_from_shape(model, round_cluster(), setup);
  const DeviceMemory kept_memory = device_memory(model, setup);
  setup.recompute = Recompute::kFull;
  const CostModel again = cost_from_shape(model, round_cluster(), setup);
  EXPECT_DOUBLE_EQ(again.backward_ratio, kept.backward_ratio + 1);
  EXPECT_DOUBLE_EQ(again.activation_bytes_per_token, 2 * 5120);
  EXPECT_LT(device_memory(model, setup).activations_per_token,
            kept_memory.activations_per_token / 5);
}

TEST(ShapeCost, AMixtureComputesWithTheExpertsItPassesAndStoresAll) {
  const ModelShape model = find_model("mixtral-8x7b");
  ModelShape dense = model;
  dense.num_experts = dense.experts_per_token = 1;
  TrainingSetup setup = setup_of(16, 8, 1);
  setup.mixture_share = 1;
  const double ratio = cost_from_shape(model, round_cluster(), setup).linear_ns_per_token /
                       cost_from_shape(dense, round_cluster(), setup).linear_ns_per_token;
  EXPECT_GT(ratio, 1.6);
  EXPECT_LT(ratio, 2.0);
  EXPECT_GT(device_memory(model, setup).weights, 5 * device_memory(dense, setup).weights);
}

TEST(ShapeCost, ExpertMatricesReachAShareOfTheRateOfDenseOnes) {
  const ModelShape model = find_model("mixtral-8x22b");
  TrainingSetup setup = setup_of(16, 1, 1);
  setup.mixture_share = 1;
  const double whole = cost_from_shape(model, round_cluster(), setup).linear_ns_per_token;
  setup.mixture_share = 0.25;
  const double slower = cost_from_shape(model, round_cluster(), setup).linear_ns_per_token;
  const double experts = 2 * 2 * 3.0 * 6144 * 16384 / 500;  // 2 a multiply-add, 2 experts
  EXPECT_NEAR(slower - whole, 3 * experts, 1e-6 * experts);
}

TEST(DeviceMemory, StatesAreShardedAsStated) {
  ModelShape model = find_model("llama-7b");
  const double parameters = num_parameters(model) - 4096;  // but the last norm
  const DeviceMemory memory = device_memory(model, setup_of(512, 2, 1));
  EXPECT_DOUBLE_EQ(memory.weights, parameters / 2 * 2);
  EXPECT_DOUBLE_EQ(memory.gradients, parameters / 2 * 4);
  EXPECT_DOUBLE_EQ(memory.optimizer, parameters / 2 * 12 / 512);
  EXPECT_DOUBLE_EQ(memory.activations_per_token, 32 * activation_bytes_per_token(model) / 2);
}

TEST(DeviceMemory, APipelineKeepsAsManyMicroBatchesAsItHasStages) {
  const ModelShape model = find_model("llama-70b");
  const double flat = device_memory(model, setup_of(4, 8, 1)).activations_per_token;
  EXPECT_DOUBLE_EQ(device_memory(model, setup_of(4, 8, 4)).activations_per_token, flat);
  EXPECT_GT(device_memory(model, setup_of(4, 8, 3)).activations_per_token, flat)
      << "80 layers are cut 27, 27, 26";
}

TEST(DeviceMemory, TheLargestCapacityJustFits) {
  const ModelShape model = find_model("llama-7b");
  const ClusterDescription cluster = find_cluster("h800");
  const TrainingSetup setup = setup_of(64, 2, 1);
  const Tokens most = largest_capacity(model, cluster, setup, 0.1);
  const DeviceMemory memory = device_memory(model, setup);
  EXPECT_LE(memory.total(most), 0.9 * cluster.memory_bytes);
  EXPECT_GT(memory.total(most + 1_tok), 0.9 * cluster.memory_bytes);
  EXPECT_EQ(largest_capacity(find_model("llama-70b"), cluster, setup_of(64, 2, 1)), 0_tok)
      << "the states alone do not fit";
}

TEST(ShapeCost, AModelThatCannotBeCutSoIsRefused) {
  const ClusterDescription cluster = find_cluster("h800");
  EXPECT_THROW(cost_from_shape(find_model("llama-30b"), cluster, setup_of(8, 8, 61)), UserError);
  ModelShape odd = find_model("llama-7b");
  odd.num_heads = odd.num_kv_heads = 9;
  EXPECT_THROW(cost_from_shape(odd, cluster, setup_of(8, 2, 1)), UserError);
  EXPECT_THROW(parse_recompute("some", "--recompute"), UserError);
}

}  // namespace
}  // namespace weft
