#include "sim/scenario.h"

#include <algorithm>

namespace weft {
namespace {

double real(std::int64_t value) { return static_cast<double>(value); }

HopLinks hop_links(const Scenario& scenario) {
  HopLinks links;
  if (scenario.has_measured_cost) return links;
  // The cost's hop already has the devices of one stage share the NICs.
  links.full_speed_rings =
      std::max(1.0, real(scenario.cluster.nics_per_node) / real(scenario.setup.mesh.tensor));
  return links;
}

StepEndSpec step_end_spec(const Scenario& scenario, const DeviceMemory& memory) {
  const ClusterDescription& cluster = scenario.cluster;
  return {.gradient_bytes = memory.gradients,
          .weight_bytes = memory.weights,
          .optimizer_bytes = memory.optimizer,
          .memory_bytes_per_second = cluster.memory_bytes_per_second,
          .node_bytes_per_second = node_link_rate(cluster),
          .node_latency_ns = cluster.node_link_latency_ns,
          .nic_bytes_per_second = nic_rate(cluster, cluster.devices_per_node),
          .nic_latency_ns = cluster.nic_latency_ns};
}

}  // namespace

Scenario make_scenario(ModelShape model, ClusterDescription cluster, TrainingSetup setup) {
  Scenario scenario{.model = std::move(model), .cluster = std::move(cluster), .setup = setup};
  scenario.cost = cost_from_shape(scenario.model, scenario.cluster, setup);
  return scenario;
}

ClusterSpec ranks_of(const Scenario& scenario) {
  ClusterSpec ranks = cluster_spec(scenario.cluster, scenario.setup.mesh);
  ranks.virtual_stages = static_cast<std::int32_t>(scenario.setup.virtual_stages);
  return ranks;
}

PlanRequest plan_request(const Scenario& scenario, const PlanOptions& options) {
  PlanRequest request;
  request.cluster = ranks_of(scenario);
  request.cost = scenario.cost;
  request.options = options;
  return request;
}

SimulationInput simulation_input(const Scenario& scenario, const StepPlan& plan,
                                 const ClusterSpec& cluster) {
  const DeviceMemory memory = device_memory(scenario.model, scenario.setup);
  SimulationInput input;
  input.plan = &plan;
  input.cost = &scenario.cost;
  input.cluster = &cluster;
  input.links = hop_links(scenario);
  input.end = step_end_spec(scenario, memory);
  // A stage holds its share of the layers; device_memory() counts all that are in flight.
  input.memory = {.state_bytes = memory.states(),
                  .token_bytes = activation_bytes_per_layer(scenario.model, scenario.setup) *
                                 real(scenario.model.num_layers),
                  .logits_token_bytes = memory.logits_per_token};
  return input;
}

StepOutlook look_ahead(const Scenario& scenario, const StepPlan& plan, bool keep_events) {
  const ClusterSpec cluster = ranks_of(scenario);
  SimulationInput input = simulation_input(scenario, plan, cluster);
  input.keep_events = keep_events;
  StepOutlook outlook;
  outlook.timeline = simulate_step(input);
  const Timeline& timeline = outlook.timeline;
  outlook.step_s = seconds(timeline.step_time);
  const double devices = real(scenario.setup.mesh.num_devices());
  if (outlook.step_s > 0 && timeline.tokens > 0) {
    outlook.tokens_per_second = real(timeline.tokens) / outlook.step_s;
    outlook.mfu =
        training_flops(scenario.model, real(timeline.tokens), causal_pairs(plan.sequences)) /
        (outlook.step_s * devices * scenario.cluster.peak_flops_per_second);
    outlook.device_hours_per_billion_tokens = 1e9 / outlook.tokens_per_second / 3600 * devices;
  }
  for (const double bytes : timeline.peak_bytes)
    outlook.peak_bytes = std::max(outlook.peak_bytes, bytes);
  outlook.fits = outlook.peak_bytes <= (1 - kMemoryReserve) * scenario.cluster.memory_bytes;
  return outlook;
}

double causal_pairs(std::span<const SequenceSpec> sequences) {
  double pairs = 0;
  for (const SequenceSpec& sequence : sequences) {
    const double tokens = real(sequence.tokens.value());
    pairs += tokens * (tokens + 1) / 2;
  }
  return pairs;
}

}  // namespace weft
