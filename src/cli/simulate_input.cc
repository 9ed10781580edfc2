#include "cli/simulate_input.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/suggest.h"
#include "cluster/cluster_presets.h"
#include "corpus/workload.h"

namespace weft {
namespace {

constexpr Tokens kCapacityStep{1024};  // a capacity that was not given is a multiple of it
constexpr std::size_t kMostPoints = 1000;

struct SweepKey {
  const char* name;
  std::string SimulateFlags::* value;
};
constexpr std::array<SweepKey, 12> kSweepKeys{{{"model", &SimulateFlags::model},
                                               {"cluster", &SimulateFlags::cluster},
                                               {"devices", &SimulateFlags::devices},
                                               {"ranks", &SimulateFlags::ranks},
                                               {"tp", &SimulateFlags::tensor},
                                               {"pp", &SimulateFlags::pipeline},
                                               {"virtual-stages", &SimulateFlags::virtual_stages},
                                               {"capacity", &SimulateFlags::capacity},
                                               {"recompute", &SimulateFlags::recompute},
                                               {"dtype", &SimulateFlags::dtype},
                                               {"link-scale", &SimulateFlags::link_scale},
                                               {"cost", &SimulateFlags::cost}}};
// Of the sequences.
struct SequenceKey {
  const char* name;
  std::string PlanFlags::* value;
};
constexpr std::array<SequenceKey, 3> kSequenceKeys{
    {{"workload", &PlanFlags::workload},
     {"context", &PlanFlags::context},
     {"global-batch-tokens", &PlanFlags::global_batch_tokens}}};

std::int64_t positive(const std::string& text, std::string_view flag) {
  const std::int64_t count = parse_count(text, flag);
  WEFT_USER_CHECK(count >= 1 && count <= kMostTokens.value(), "{} is {}, expected 1 to {}", flag,
                  text, kMostTokens);
  return count;
}

double parse_scale(const std::string& text) {
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  WEFT_USER_CHECK(
      error == std::errc() && stop == text.data() + text.size() && value >= 1e-6 && value <= 1e6,
      "--link-scale is '{}', expected a number from 1e-6 to 1e6", text);
  return value;
}

// What every flag says by itself. A wrong value is an error even in a sweep; what values do not go
// together is found when they are combined.
struct FlagValues {
  ModelShape model;
  ClusterDescription cluster;
  double link_scale = 1;
  std::int64_t tensor = 1;
  std::int64_t pipeline = 1;
  std::int64_t devices = 0;  // 0: of the ranks
  std::int64_t ranks = 0;
  Tokens capacity = {};      // 0: the largest that fits
  TrainingSetup setup = {};  // without its mesh
  std::optional<CostModel> cost = {};
};

FlagValues values_of(const SimulateFlags& flags) {
  WEFT_USER_CHECK(flags.ranks_per_node == 0,
                  "simulate: --ranks-per-node {} is for --cost alone; the cluster '{}' says it",
                  flags.ranks_per_node, flags.cluster);
  WEFT_USER_CHECK(flags.devices.empty() != flags.ranks.empty(),
                  "simulate: give one of --devices and --ranks (a rank is --tp x --pp devices)");
  FlagValues values{.model = find_model(flags.model), .cluster = find_cluster(flags.cluster)};
  values.link_scale = parse_scale(flags.link_scale);
  values.tensor = positive(flags.tensor, "--tp");
  values.pipeline = positive(flags.pipeline, "--pp");
  WEFT_USER_CHECK(values.tensor <= kMostRanks && values.pipeline <= kMostPipelineStages,
                  "simulate: --tp {} --pp {}, expected at most {} and {}", values.tensor,
                  values.pipeline, kMostRanks, kMostPipelineStages);
  if (flags.devices.empty()) {
    values.ranks = positive(flags.ranks, "--ranks");
    WEFT_USER_CHECK(values.ranks <= kMostRanks, "simulate: --ranks is {}, expected at most {}",
                    flags.ranks, kMostRanks);
  } else {
    values.devices = positive(flags.devices, "--devices");
  }
  values.capacity = parse_tokens(flags.capacity, "--capacity", 0);
  values.setup.virtual_stages = positive(flags.virtual_stages, "--virtual-stages");
  values.setup.recompute = parse_recompute(flags.recompute, "--recompute");
  set_dtype(values.setup, flags.dtype, "--dtype");
  if (!flags.cost.empty()) values.cost = load_cost_model(flags.cost);
  parse_tokens(flags.sequences.context, "--context", 0);
  parse_tokens(flags.sequences.global_batch_tokens, "--global-batch-tokens", 0);
  return values;
}

// "KEY=VALUES" -> the key as flags spell it.
std::string key_of(const std::string& sweep) {
  std::string key = sweep.substr(0, sweep.find('='));
  std::replace(key.begin(), key.end(), '_', '-');
  return key;
}

void set_point(const std::string& key, const std::string& value, SimulateFlags& flags) {
  for (const SweepKey& known : kSweepKeys) {
    if (key != known.name) continue;
    flags.*known.value = value;
    // They exclude each other.
    if (key == "ranks") flags.devices.clear();
    if (key == "devices") flags.ranks.clear();
    return;
  }
  for (const SequenceKey& known : kSequenceKeys) {
    if (key != known.name) continue;
    flags.sequences.*known.value = value;
    return;
  }
  std::vector<std::string> names;
  for (const SweepKey& known : kSweepKeys) names.emplace_back(known.name);
  for (const SequenceKey& known : kSequenceKeys) names.emplace_back(known.name);
  const auto nearest = nearest_name(key, names);
  throw_user_error("--sweep: unknown key '{}'; expected one of {}{}", key, fmt::join(names, ", "),
                   nearest ? fmt::format("; did you mean '{}'?", *nearest) : "");
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end = 0; end != std::string::npos; begin = end + 1) {
    end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end == std::string::npos ? end : end - begin));
  }
  return parts;
}

// Asks the planner, with nothing to plan.
void check_strategy(const std::string& strategy) {
  make_plan({.sequences = {},
             .cluster = uniform_cluster(1, 1),
             .cost = {},
             .options = {.strategy = strategy, .capacity = Tokens(1), .max_context = {}}});
}

void check_values(const std::vector<SweepPoint>& points) {
  std::set<std::string> workloads;  // may be large files: each is read once
  for (const SweepPoint& point : points) {
    values_of(point.flags);
    const std::string& workload = point.flags.sequences.workload;
    if (!workload.empty() && workloads.insert(workload).second)
      parse_workload(workload, kMostTokens);
  }
  // No keys of a sweep, so the same in all points.
  const SimulateFlags& flags = points.front().flags;
  check_sequence_source(flags.sequences);
  if (flags.strategy != "all") check_strategy(flags.strategy);
}

}  // namespace

SimulationCase simulation_case(const SimulateFlags& flags) {
  FlagValues values = values_of(flags);
  ClusterDescription& cluster = values.cluster;
  cluster.node_link_bytes_per_second *= values.link_scale;
  cluster.nic_bytes_per_second *= values.link_scale;
  TrainingSetup& setup = values.setup;
  const std::int64_t devices =
      values.devices > 0 ? values.devices : values.ranks * values.tensor * values.pipeline;
  setup.mesh = mesh_of_devices(cluster, devices, values.tensor, values.pipeline);
  SimulationCase result{.scenario = make_scenario(values.model, cluster, setup)};
  if (values.cost) {
    WEFT_USER_CHECK(values.link_scale == 1,
                    "simulate: --link-scale has no effect on the links of --cost {}", flags.cost);
    result.scenario.cost = *values.cost;
    result.scenario.has_measured_cost = true;
  }
  result.largest_capacity = largest_capacity(result.scenario.model, cluster, setup, kMemoryReserve);
  result.is_capacity_given = !flags.capacity.empty();
  if (result.is_capacity_given) {
    result.capacity = values.capacity;
  } else {
    result.capacity = result.largest_capacity / kCapacityStep.value() * kCapacityStep.value();
    const DeviceMemory memory = device_memory(result.scenario.model, setup);
    WEFT_USER_CHECK(
        result.capacity >= kCapacityStep,
        "simulate: '{}' leaves no memory for activations: {} of weights, gradients and optimizer "
        "on each device of {}; raise --tp or --pp, {}or state --capacity to see it anyway",
        result.scenario.model.name, format_bytes(Bytes(static_cast<std::int64_t>(memory.states()))),
        format_bytes(Bytes(static_cast<std::int64_t>(cluster.memory_bytes))),
        memory.states() < (1 - kMemoryReserve) * cluster.memory_bytes ? "try --recompute full, "
                                                                      : "");
  }
  return result;
}

std::vector<std::string> sweep_keys(const SimulateFlags& flags) {
  std::vector<std::string> keys;
  for (const std::string& sweep : flags.sweep) keys.push_back(sweep.substr(0, sweep.find('=')));
  return keys;
}

std::vector<SweepPoint> sweep_points(const SimulateFlags& flags) {
  std::vector<SweepPoint> points{{.values = {}, .flags = flags}};
  std::set<std::string> keys;
  for (const std::string& sweep : flags.sweep) {
    const std::size_t equals = sweep.find('=');
    WEFT_USER_CHECK(equals != std::string::npos && equals + 1 < sweep.size(),
                    "--sweep is '{}', expected KEY=VALUE,VALUE such as capacity=4K,8K", sweep);
    const std::string key = key_of(sweep);
    WEFT_USER_CHECK(keys.insert(key).second,
                    "--sweep: '{}' is there twice; give all its values once, such as {}=A,B", key,
                    key);
    WEFT_USER_CHECK(!keys.contains("devices") || !keys.contains("ranks"),
                    "--sweep: devices and ranks exclude each other");
    std::vector<SweepPoint> more;
    for (const SweepPoint& point : points) {
      for (const std::string& value : split(sweep.substr(equals + 1), ',')) {
        more.push_back(point);
        more.back().values.push_back(value);
        set_point(key, value, more.back().flags);
      }
    }
    points = std::move(more);
    WEFT_USER_CHECK(points.size() <= kMostPoints, "--sweep: more than {} combinations",
                    kMostPoints);
  }
  check_values(points);
  return points;
}

void add_simulate_flags(CLI::App& simulate, SimulateFlags& flags) {
  simulate
      .add_option("--model", flags.model,
                  "llama-7b, llama-13b, llama-30b, llama-70b, mixtral-8x7b, mixtral-8x22b, or "
                  "a Hugging Face config.json or its folder")
      ->type_name("NAME");
  simulate
      .add_option("--cluster", flags.cluster,
                  fmt::format("{}, or a cluster file", fmt::join(cluster_preset_names(), ", ")))
      ->type_name("NAME");
  simulate.add_option("--devices", flags.devices, "Devices of the run, such as 1K")->type_name("N");
  simulate.add_option("--ranks", flags.ranks, "Ranks of the HDP axis, instead of --devices")
      ->type_name("N");
  simulate
      .add_option("--ranks-per-node", flags.ranks_per_node,
                  "With --cost alone: ranks that share a node, where its node hops hold (default: "
                  "all)")
      ->check(CLI::PositiveNumber)
      ->type_name("N");
  simulate.add_option("--tp", flags.tensor, "Tensor parallelism of a rank (default: 1)")
      ->type_name("N");
  simulate.add_option("--pp", flags.pipeline, "Pipeline stages of a rank (default: 1)")
      ->type_name("N");
  simulate
      .add_option("--virtual-stages", flags.virtual_stages,
                  "Chunks of layers that a device of a pipeline holds: interleaved 1F1B (default: "
                  "1)")
      ->type_name("N");
  add_sequence_flags(simulate, flags.sequences)->require_option(0, 1);
  simulate
      .add_option("--capacity", flags.capacity,
                  "Tokens that a rank holds in one micro-batch, such as 8K (default: the "
                  "largest multiple of 1K that fits)")
      ->type_name("TOKENS");
  simulate
      .add_option("--recompute", flags.recompute,
                  "What backward computes again: none or full (default: none)")
      ->type_name("POLICY");
  simulate
      .add_option("--dtype", flags.dtype,
                  "bfloat16 (mixed precision) or float32, as weft train (default: bfloat16)")
      ->type_name("TYPE");
  simulate.add_flag("--offload", flags.offload,
                    "Strategy hdp may offload activations of long sequences (default: off)");
  simulate
      .add_option("--link-scale", flags.link_scale,
                  "Bandwidths of links and NICs times this (default: 1)")
      ->type_name("X");
  simulate
      .add_option("--cost", flags.cost,
                  "Cost file measured on the cluster's devices (default: from the shapes); without "
                  "--model and --cluster, of weft profile's own model and machine")
      ->type_name("FILE");
  simulate
      .add_option("--strategy", flags.strategy,
                  fmt::format("{}, or all (default: all)", fmt::join(strategy_names(), ", ")))
      ->type_name("NAME");
  simulate
      .add_option("--sweep", flags.sweep,
                  "KEY=VALUE,VALUE,...: all combinations; keys are flags of this command")
      ->type_name("KEY=VALUES");
  simulate
      .add_option("--batches", flags.num_batches,
                  "Simulate this many steps and print means (default: 1; 16 with --paper)")
      ->check(CLI::Range(std::int64_t{1}, std::numeric_limits<std::int64_t>::max()))
      ->type_name("N");
}

}  // namespace weft
