#include "cost/shape_cost.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace weft {
namespace {

constexpr double kNsPerSecond = 1e9;

double real(std::int64_t value) { return static_cast<double>(value); }

// Of K and V: heads that the devices of a stage hold together. With more devices than key/value
// heads each head is held more than once, and travels so.
double kv_copies(const ModelShape& model, const Mesh& mesh) {
  return std::max(1.0, real(mesh.tensor) / real(model.num_kv_heads));
}

// Of all devices of a stage together.
double kv_bytes(const ModelShape& model, const TrainingSetup& setup) {
  return kv_bytes_per_token(model, setup.element_bytes) * kv_copies(model, setup.mesh);
}

double kv_bytes_per_device(const ModelShape& model, const TrainingSetup& setup) {
  return kv_bytes(model, setup) / real(setup.mesh.tensor);
}

// Tensor parallelism with sharded norms: a gather before and a scatter after attention and
// feed-forward, each of (t - 1) / t of a token's hidden state over a device's link.
double tensor_collectives_ns(const ModelShape& model, const ClusterDescription& cluster,
                             const TrainingSetup& setup) {
  const Mesh& mesh = setup.mesh;
  if (mesh.tensor == 1) return 0;
  const double share = real(mesh.tensor - 1) / real(mesh.tensor);
  const double bytes = 4 * setup.element_bytes * real(model.hidden_size) * share;
  return bytes / node_link_rate(cluster) * kNsPerSecond;
}

double layers_of_first_stage(const ModelShape& model, const Mesh& mesh) {
  return std::ceil(real(model.num_layers) / real(mesh.pipeline));
}

double kept_bytes(const ModelShape& model, const TrainingSetup& setup) {
  return setup.recompute == Recompute::kFull
             ? setup.element_bytes * real(model.hidden_size)
             : activation_bytes_per_token(model, setup.element_bytes);
}

}  // namespace

std::string_view to_string(Recompute recompute) {
  return recompute == Recompute::kFull ? "full" : "none";
}

Recompute parse_recompute(std::string_view text, std::string_view what) {
  if (text == "none") return Recompute::kNone;
  WEFT_USER_CHECK(text == "full", "{} is '{}', expected none or full", what, text);
  return Recompute::kFull;
}

void set_dtype(TrainingSetup& setup, std::string_view name, std::string_view what) {
  const TrainingSetup mixed;
  if (name == "float32") {
    setup.element_bytes = setup.weight_bytes = setup.gradient_bytes = 4;
    setup.optimizer_bytes = 8;
    return;
  }
  WEFT_USER_CHECK(name == "bfloat16", "{} is '{}', expected bfloat16 or float32", what, name);
  setup.element_bytes = mixed.element_bytes;
  setup.weight_bytes = mixed.weight_bytes;
  setup.gradient_bytes = mixed.gradient_bytes;
  setup.optimizer_bytes = mixed.optimizer_bytes;
}

void check_setup(const ModelShape& model, const ClusterDescription& cluster,
                 const TrainingSetup& setup) {
  const std::int64_t tensor = setup.mesh.tensor;
  WEFT_USER_CHECK(model.num_heads % tensor == 0,
                  "simulate: tensor parallelism {} must divide the {} heads of '{}'", tensor,
                  model.num_heads, model.name);
  WEFT_USER_CHECK(model.num_kv_heads % tensor == 0 || tensor % model.num_kv_heads == 0,
                  "simulate: tensor parallelism {} and the {} key/value heads of '{}' do not "
                  "divide one another",
                  tensor, model.num_kv_heads, model.name);
  WEFT_USER_CHECK(setup.mesh.pipeline <= model.num_layers,
                  "simulate: {} pipeline stages for the {} layers of '{}'", setup.mesh.pipeline,
                  model.num_layers, model.name);
  check_virtual_stages(setup.mesh.pipeline, setup.virtual_stages, model.num_layers, model.name);
  mesh_of_devices(cluster, setup.mesh.num_devices(), tensor, setup.mesh.pipeline);
}

void check_virtual_stages(std::int64_t stages, std::int64_t virtual_stages, std::int64_t num_layers,
                          std::string_view model) {
  WEFT_USER_CHECK(virtual_stages >= 1, "simulate: {} virtual stages, expected at least 1",
                  virtual_stages);
  if (virtual_stages == 1) return;
  WEFT_USER_CHECK(stages > 1,
                  "simulate: {} virtual stages without a pipeline; raise --pp (now 1), or leave "
                  "out --virtual-stages",
                  virtual_stages);
  WEFT_USER_CHECK(num_layers % stages == 0,
                  "simulate: the {} layers of '{}' are not a multiple of {} pipeline stages, as "
                  "virtual stages need; leave out --virtual-stages, or change --pp",
                  num_layers, model, stages);
  const std::int64_t layers = num_layers / stages;
  if (layers % virtual_stages == 0) return;
  std::vector<std::int64_t> good;
  for (std::int64_t v = 1; v <= layers; ++v) {
    if (layers % v == 0) good.push_back(v);
  }
  throw_user_error(
      "simulate: {} pipeline stages of {} virtual stages each do not divide the {} "
      "layers of '{}'; expected one of {}",
      stages, virtual_stages, num_layers, model, fmt::join(good, ", "));
}

HopCost node_hop(const ModelShape& model, const ClusterDescription& cluster,
                 const TrainingSetup& setup) {
  const double bytes = kv_bytes_per_device(model, setup);
  return {.ns_per_token = bytes / node_link_rate(cluster) * kNsPerSecond,
          .fixed_ns = cluster.node_link_latency_ns};
}

HopCost nic_hop(const ModelShape& model, const ClusterDescription& cluster,
                const TrainingSetup& setup) {
  const double bytes = kv_bytes_per_device(model, setup);
  return {.ns_per_token = bytes / nic_rate(cluster, setup.mesh.tensor) * kNsPerSecond,
          .fixed_ns = cluster.nic_latency_ns};
}

CostModel cost_from_shape(const ModelShape& model, const ClusterDescription& cluster,
                          const TrainingSetup& setup) {
  check_setup(model, cluster, setup);
  const double peak = cluster.peak_flops_per_second * real(setup.mesh.tensor);
  const double head = head_flops_per_token(model) / real(model.num_layers);
  // As many dense FLOPs as take the same time.
  const double slowed = 2 * expert_weights(model) * (1 / setup.mixture_share - 1);
  const double gemm_ns =
      (layer_flops_per_token(model) + head + slowed) / (peak * cluster.gemm_share) * kNsPerSecond;
  const bool is_one_node = setup.mesh.num_ranks * setup.mesh.tensor <= cluster.devices_per_node;
  const HopCost inside = node_hop(model, cluster, setup);
  const HopCost hop = is_one_node ? inside : nic_hop(model, cluster, setup);
  CostModel cost;
  cost.name = fmt::format("{} on {}", model.name, cluster.name);
  cost.source = fmt::format(
      "shape of the model, rates of the cluster; tensor {}, pipeline {}, "
      "recompute {}",
      setup.mesh.tensor, setup.mesh.pipeline, to_string(setup.recompute));
  cost.num_layers = static_cast<std::int32_t>(model.num_layers);
  cost.attention_ns_per_pair =
      layer_flops_per_pair(model) / (peak * cluster.attention_share) * kNsPerSecond;
  cost.linear_ns_per_token = gemm_ns + tensor_collectives_ns(model, cluster, setup);
  cost.fixed_ns = setup.fixed_ns;
  cost.hop_ns_per_token = hop.ns_per_token;
  cost.hop_fixed_ns = hop.fixed_ns;
  // Neighbours whose node has slower links than NICs can use the NICs.
  cost.node_hop_ns_per_token = std::min(inside.ns_per_token, hop.ns_per_token);
  cost.node_hop_fixed_ns = std::min(inside.fixed_ns, hop.fixed_ns);
  cost.backward_ratio = setup.backward_ratio + (setup.recompute == Recompute::kFull ? 1.0 : 0.0);
  cost.kv_bytes_per_token = kv_bytes(model, setup);
  cost.activation_bytes_per_token = kept_bytes(model, setup);
  // Every device of the rank has a host link of its own.
  cost.offload_bytes_per_second =
      cluster.host_link_bytes_per_second * cluster.host_link_share * real(setup.mesh.tensor);
  cost.host_bytes_per_rank = cluster.host_memory_bytes / real(cluster.devices_per_node) *
                             real(setup.mesh.tensor * setup.mesh.pipeline);
  return cost;
}

double activation_bytes_per_layer(const ModelShape& model, const TrainingSetup& setup) {
  return kept_bytes(model, setup) / real(setup.mesh.tensor);
}

DeviceMemory device_memory(const ModelShape& model, const TrainingSetup& setup) {
  const Mesh& mesh = setup.mesh;
  const double embedding = real(model.vocab_size) * real(model.hidden_size);
  // First and last stage hold one of the two embeddings; a lone stage both, unless tied.
  const double embeddings = mesh.pipeline == 1 && !model.tie_word_embeddings ? 2 : 1;
  const double layers = layers_of_first_stage(model, mesh);
  const double weights =
      (layers * all_layer_weights(model) + embeddings * embedding) / real(mesh.tensor);
  DeviceMemory memory;
  memory.weights = weights * setup.weight_bytes;
  memory.gradients = weights * setup.gradient_bytes;
  memory.optimizer = weights * setup.optimizer_bytes / real(mesh.num_ranks);
  // The first stage of 1F1B holds as many micro-batches as there are stages; with V chunks a device
  // as many passes of a chunk as plan/pass_order.h lets in: (V + 1) p - 1.
  const double layers_held = setup.virtual_stages == 1
                                 ? layers * real(mesh.pipeline)
                                 : layers / real(setup.virtual_stages) *
                                       real((setup.virtual_stages + 1) * mesh.pipeline - 1);
  memory.activations_per_token = layers_held * activation_bytes_per_layer(model, setup);
  if (setup.recompute == Recompute::kFull)  // one layer's worth while it is computed again
    memory.activations_per_token +=
        activation_bytes_per_token(model, setup.element_bytes) / real(mesh.tensor);
  memory.logits_per_token = setup.element_bytes * real(model.vocab_size) / real(mesh.tensor);
  return memory;
}

Tokens largest_capacity(const ModelShape& model, const ClusterDescription& cluster,
                        const TrainingSetup& setup, double reserve) {
  const DeviceMemory memory = device_memory(model, setup);
  const double room = cluster.memory_bytes * (1 - reserve) - memory.states();
  if (room <= 0) return Tokens(0);
  return Tokens(
      static_cast<std::int64_t>(room / (memory.activations_per_token + memory.logits_per_token)));
}

}  // namespace weft
