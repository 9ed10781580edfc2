#include "sim/paper_setup.h"

#include <algorithm>

#include "base/error.h"
#include "cluster/cluster_presets.h"
#include "corpus/workload.h"
#include "plan/evaluate.h"
#include "plan/lower_bound.h"
#include "plan/offload.h"
#include "plan/packing.h"
#include "plan/plan_builder.h"
#include "plan/sequence_time.h"
#include "plan/validate.h"

namespace weft {
namespace {

constexpr double kStatesShare = 1.0 / 3;

// Sequences that run together: one over `degree` ranks, or a pack on one.
struct Item {
  bool is_pack = false;
  std::int64_t arrival = 0;  // id of its longest sequence
  std::int32_t degree = 1;
  std::vector<std::int32_t> sequences;
};

std::int32_t degree_of(const PlanRequest& request, const StepPlan& plan, Tokens tokens,
                       bool offload) {
  const std::int32_t most = smallest_degree(tokens, plan.capacity);
  if (!offload) return most;
  const std::int32_t least = least_degree_with_offload(request.cost, tokens, plan.capacity);
  return degree_within(request.cost, tokens, least, most, plan.lower_bound / 2);
}

std::vector<Item> items_of(const PlanRequest& request, const StepPlan& plan, bool offload) {
  std::vector<Item> items;
  std::vector<PackableSequence> whole;
  for (std::size_t i = 0; i < plan.sequences.size(); ++i) {
    const SequenceSpec& sequence = plan.sequences[i];
    const auto sequence_idx = static_cast<std::int32_t>(i);
    if (sequence.tokens <= plan.capacity) {
      whole.push_back({sequence_idx, sequence.tokens});
    } else {
      items.push_back({.is_pack = false,
                       .arrival = sequence.id,
                       .degree = degree_of(request, plan, sequence.tokens, offload),

                       .sequences = {sequence_idx}});
    }
  }
  for (std::vector<std::int32_t>& bin : pack_best_fit(whole, plan.capacity)) {
    const std::int64_t arrival = plan.sequences[static_cast<std::size_t>(bin.front())].id;
    items.push_back(
        {.is_pack = true, .arrival = arrival, .degree = 1, .sequences = std::move(bin)});
  }
  std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
    return std::pair(a.is_pack, a.arrival) < std::pair(b.is_pack, b.arrival);
  });
  return items;
}

// Ranks of time steps, handed out from the first on.
class TimeSteps {
 public:
  explicit TimeSteps(std::int32_t num_ranks) : num_ranks_(num_ranks) {}

  // The time step of an item and its first rank: a sequence goes into the last step or opens one, a
  // pack into the first step with a free rank.
  struct Place {
    std::size_t step = 0;
    std::int32_t first_rank = 0;
  };
  Place place(const Item& item) {
    std::size_t step = item.is_pack || used_.empty() ? first_open_ : used_.size() - 1;
    while (step < used_.size() && used_[step] + item.degree > num_ranks_) ++step;
    if (step == used_.size()) used_.push_back(0);
    if (item.is_pack) first_open_ = step;
    const Place place{.step = step, .first_rank = used_[step]};
    used_[step] += item.degree;
    return place;
  }

 private:
  std::int32_t num_ranks_;
  std::size_t first_open_ = 0;      // for packs
  std::vector<std::int32_t> used_;  // [steps]
};

void add_items(const std::vector<Item>& items, StepPlan& plan) {
  TimeSteps steps(plan.num_ranks);
  std::vector<std::pair<TimeSteps::Place, const Item*>> placed;
  for (const Item& item : items) placed.emplace_back(steps.place(item), &item);
  std::stable_sort(placed.begin(), placed.end(),
                   [](const auto& a, const auto& b) { return a.first.step < b.first.step; });
  PlanBuilder builder(plan);
  for (const auto& [place, item] : placed) {
    std::vector<Rank> ranks;
    for (std::int32_t i = 0; i < item->degree; ++i) ranks.emplace_back(place.first_rank + i);
    builder.open_slot();
    for (const std::int32_t sequence_idx : item->sequences) {
      if (ranks.size() > 1) {
        builder.add_shared(sequence_idx, ranks);
      } else {
        builder.add_whole(sequence_idx, ranks.front());
      }
    }
  }
}

}  // namespace

ClusterDescription paper_cluster(const PaperCalibration& calibration) {
  ClusterDescription cluster = find_cluster("a800");
  cluster.gemm_share = calibration.gemm_share;
  cluster.attention_share = calibration.attention_share;
  cluster.nic_share = calibration.nic_share;
  return cluster;
}

Mesh paper_mesh(const ModelShape& model, const ClusterDescription& cluster,
                std::int64_t num_devices) {
  TrainingSetup setup;
  setup.mesh = {.num_ranks = 1, .tensor = 1, .pipeline = 1};
  for (;;) {
    const DeviceMemory memory = device_memory(model, setup);
    if (memory.weights + memory.gradients <= kStatesShare * cluster.memory_bytes) break;
    (setup.mesh.tensor < cluster.devices_per_node ? setup.mesh.tensor : setup.mesh.pipeline) *= 2;
  }
  return mesh_of_devices(cluster, num_devices, setup.mesh.tensor, setup.mesh.pipeline);
}

Scenario paper_scenario(const std::string& model, std::int64_t num_devices,
                        const PaperCalibration& calibration) {
  const ClusterDescription cluster = paper_cluster(calibration);
  const ModelShape shape = find_model(model);
  TrainingSetup setup;
  setup.mesh = paper_mesh(shape, cluster, num_devices);
  if (setup.mesh.pipeline > 1) setup.virtual_stages = kPaperVirtualStages;
  return make_scenario(shape, cluster, setup);
}

std::vector<SequenceSpec> paper_sequences(const std::string& workload, Tokens context,
                                          std::int64_t batch, Tokens tokens) {
  std::vector<SequenceSpec> sequences;
  for (const std::int64_t length :
       draw_lengths(parse_workload(workload, context), tokens, kPaperSeed, batch)) {
    sequences.push_back({.id = static_cast<std::int64_t>(sequences.size()),
                         .tokens = Tokens(length),
                         .num_targets = length - 1});
  }
  return sequences;
}

StepPlan paper_naive_plan(const PlanRequest& request, bool offload) {
  StepPlan plan;
  plan.strategy = offload ? "naive HDP with offload" : "naive HDP";
  plan.num_ranks = request.cluster.num_ranks;
  plan.capacity = request.options.capacity;
  plan.num_layers = request.cost.num_layers;
  plan.pipeline_stages = request.cluster.pipeline_stages;
  plan.virtual_stages = request.cluster.virtual_stages;
  plan.sequences = sorted_canonically(request.sequences);
  plan.lower_bound =
      lower_bound(plan.sequences, request.cost, request.cluster, plan.capacity).best();
  add_items(items_of(request, plan, offload), plan);
  if (offload) set_offload_ratios(plan);
  plan.makespan = evaluate(plan, request.cost, request.cluster).makespan;
  validate(plan);
  return plan;
}

}  // namespace weft
