#include "plan/evaluate.h"

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "cost/micro_batch_time.h"
#include "plan/pipeline_time.h"
#include "plan/ring_shares.h"
#include "plan/slot_order.h"

namespace weft {
namespace {

void add(Nanoseconds& sum, Nanoseconds value) {
  std::int64_t ns = sum.value();
  add_checked(ns, value.value(), "time in nanoseconds");
  sum = Nanoseconds(ns);
}

// Links of the ring whose ends are on two nodes.
std::int64_t cross_node_links(const std::vector<Rank>& ring, const ClusterSpec& cluster) {
  std::int64_t count = 0;
  std::int32_t previous = cluster.node_of(ring.back());
  for (const Rank rank : ring) {
    const std::int32_t node = cluster.node_of(rank);
    count += node != previous ? 1 : 0;
    previous = node;
  }
  return count;
}

// What the micro-batches of a slot make of it.
struct SlotLoad {
  double layer_ns = 0;   // of the slowest rank, one layer forward
  Nanoseconds duration;  // of the slowest rank
  std::uint32_t num_ranks = 0;
  std::uint32_t rank = 0;  // the last of them
};

// The ranks of the slots with more than one, which are few.
class SlotMembers {
 public:
  SlotMembers(const StepPlan& plan, const std::vector<SlotLoad>& loads) : begin_(loads.size()) {
    std::uint32_t num_members = 0;
    for (std::size_t s = 0; s < loads.size(); ++s) {
      begin_[s] = num_members;
      if (loads[s].num_ranks > 1) num_members += loads[s].num_ranks;
    }
    members_.resize(num_members);
    std::vector<std::uint32_t> next = begin_;
    for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
      for (const MicroBatch& m : plan.ranks[r]) {
        const auto s = static_cast<std::size_t>(m.slot_idx);
        if (loads[s].num_ranks > 1) members_[next[s]++] = static_cast<std::uint32_t>(r);
      }
    }
  }
  std::span<const std::uint32_t> of(std::size_t slot, const SlotLoad& load) const {
    if (load.num_ranks == 1) return {&load.rank, 1};
    return std::span(members_).subspan(begin_[slot], load.num_ranks);
  }

 private:
  std::vector<std::uint32_t> begin_;  // [slots] into members_
  std::vector<std::uint32_t> members_;
};

// Slots one after another on each rank.
void time_slots(const StepPlan& plan, const SlotOrder& order, const std::vector<SlotLoad>& loads,
                Evaluation& result) {
  const SlotMembers members(plan, loads);
  for (const std::int32_t slot_idx : order.slots) {
    const auto s = static_cast<std::size_t>(slot_idx);
    SlotTime& slot = result.slots[s];
    const auto ranks = members.of(s, loads[s]);
    for (const std::uint32_t r : ranks) slot.start = std::max(slot.start, result.ranks[r].finish);
    slot.end = slot.start;
    add(slot.end, loads[s].duration);
    for (const std::uint32_t r : ranks) result.ranks[r].finish = slot.end;
    result.makespan = std::max(result.makespan, slot.end);
  }
}

// The time of a micro-batch whose layers take `layer_ns` forward.
Nanoseconds own_time(const MicroBatch& micro_batch, const CostModel& cost, double layer_ns,
                     Evaluation& result) {
  const Nanoseconds computed = all_layers(cost, layer_ns);
  if (micro_batch.offload_ratio == 0) return computed;
  const double copy_ns = offload_copy_ns(cost, micro_batch.tokens(), micro_batch.offload_ratio);
  const Nanoseconds time = offloaded_time(cost, layer_ns, copy_ns);
  ++result.offloaded_micro_batches;
  result.max_offload_ratio = std::max(result.max_offload_ratio, micro_batch.offload_ratio);
  add(result.exposed_copies, time - computed);
  return time;
}

void time_pipelines(const StepPlan& plan, const CostModel& cost, const SlotOrder& order,
                    const std::vector<SlotLoad>& loads, Evaluation& result) {
  std::vector<double> layer_ns;
  layer_ns.reserve(loads.size());
  for (const SlotLoad& load : loads) layer_ns.push_back(load.layer_ns);
  run_pipelines({.plan = &plan, .layer_ns = layer_ns, .slot_order = order.slots}, cost,
                [&](const PipelinePass& pass) {
                  SlotTime& slot = result.slots[static_cast<std::size_t>(pass.slot_idx)];
                  if (pass.stage > 0 || pass.chunk > 0) return;
                  if (pass.is_backward) {
                    slot.end = pass.end;
                  } else {
                    slot.start = pass.start;
                  }
                });
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    for (const MicroBatch& m : plan.ranks[r]) {
      const Nanoseconds end = result.slots[static_cast<std::size_t>(m.slot_idx)].end;
      result.ranks[r].finish = std::max(result.ranks[r].finish, end);
    }
    result.makespan = std::max(result.makespan, result.ranks[r].finish);
  }
}

void summarize(const StepPlan& plan, const ClusterSpec& cluster, Evaluation& result) {
  for (const Group& group : plan.groups) {
    const auto degree = static_cast<std::int32_t>(group.ranks.size());
    const Tokens sent =
        plan.sequences[static_cast<std::size_t>(group.sequence_idx)].tokens * (degree - 1);
    result.exchange_tokens += sent;
    // Every link of the ring carries the same up to the unevenness of the cut.
    result.cross_node_tokens += sent / degree * cross_node_links(group.ranks, cluster);
    result.max_degree = std::max(result.max_degree, degree);
  }
  result.sharded_sequences = static_cast<std::int64_t>(plan.groups.size());
  if (result.max_degree == 0 && !plan.sequences.empty()) result.max_degree = 1;
  double total = 0;  // below 2^53 ns exact: a hundred days
  Nanoseconds largest;
  for (const RankTime& rank : result.ranks) {
    total += static_cast<double>(rank.busy.value());
    largest = std::max(largest, rank.busy);
  }
  if (total == 0) return;
  const double mean = total / plan.num_ranks;
  result.imbalance = static_cast<double>(largest.value()) / mean;
  result.idle_share = 1 - mean / static_cast<double>(result.makespan.value());
}

// What slots hold, and the micro-batches that share a sequence: they are timed last.
struct Pass {
  std::vector<SlotLoad> loads;  // [slots]
  std::vector<const MicroBatch*> shared;
  std::vector<std::size_t> rank_of_shared;
};

void add_time(const MicroBatch& micro_batch, std::size_t r, const CostModel& cost, double layer_ns,
              Pass& pass, Evaluation& result) {
  RankTime& rank = result.ranks[r];
  const Nanoseconds time = own_time(micro_batch, cost, layer_ns, result);
  add(rank.busy, time);
  ++rank.num_micro_batches;
  SlotLoad& load = pass.loads[static_cast<std::size_t>(micro_batch.slot_idx)];
  load.layer_ns = std::max(load.layer_ns, layer_ns);
  load.duration = std::max(load.duration, time);
  load.rank = static_cast<std::uint32_t>(r);
  ++load.num_ranks;
}

// layer_forward_time_ns of a micro-batch of whole sequences, nearly all there are; nullopt when it
// shares one.
std::optional<double> time_whole(const MicroBatch& micro_batch, const CostModel& cost, double speed,
                                 RankTime& rank) {
  double compute = cost.fixed_ns;
  Tokens tokens;
  std::int64_t work = 0;
  for (const Piece& piece : micro_batch.pieces) {
    if (piece.group_idx != kNoGroup) return std::nullopt;
    const Tokens own(piece.range.size());
    const std::int64_t pairs = causal_work(piece.range);
    compute += compute_ns(cost, pairs, own);
    tokens += own;
    add_checked(work, pairs, "work of a rank");
  }
  rank.tokens += tokens;
  add_checked(rank.work, work, "work of a rank");
  return compute / speed;
}

Pass time_micro_batches(const StepPlan& plan, const CostModel& cost, const ClusterSpec& cluster,
                        Evaluation& result) {
  result.ranks.resize(plan.ranks.size());
  result.slots.resize(static_cast<std::size_t>(plan.num_slots));
  Pass pass;
  pass.loads.resize(result.slots.size());
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    const double speed = cluster.speed_of(Rank(static_cast<std::int64_t>(r)));
    for (const MicroBatch& micro_batch : plan.ranks[r]) {
      if (const auto ns = time_whole(micro_batch, cost, speed, result.ranks[r])) {
        add_time(micro_batch, r, cost, *ns, pass, result);
      } else {
        pass.shared.push_back(&micro_batch);
        pass.rank_of_shared.push_back(r);
      }
    }
  }
  const RingShares rings(plan, cluster, pass.shared);
  std::vector<RingShare> shares;
  for (std::size_t i = 0; i < pass.shared.size(); ++i) {
    const std::size_t r = pass.rank_of_shared[i];
    RankTime& rank = result.ranks[r];
    rings.collect(*pass.shared[i], shares);
    for (const RingShare& share : shares) {
      rank.tokens += share.tokens;
      add_checked(rank.work, share.work, "work of a rank");
    }
    const double speed = cluster.speed_of(Rank(static_cast<std::int64_t>(r)));
    add_time(*pass.shared[i], r, cost, layer_forward_time_ns(cost, shares, speed), pass, result);
  }
  for (RankTime& rank : result.ranks) rank.busy = rank.busy / plan.pipeline_stages;
  return pass;
}

}  // namespace

Evaluation evaluate(const StepPlan& plan, const CostModel& cost, const ClusterSpec& cluster) {
  validate(cluster);
  WEFT_USER_CHECK(cluster.num_ranks == plan.num_ranks,
                  "evaluate: the plan is for {} ranks, the cluster has {}", plan.num_ranks,
                  cluster.num_ranks);
  WEFT_USER_CHECK(cluster.pipeline_stages == plan.pipeline_stages,
                  "evaluate: the plan is for pipelines of {} stages, the cluster has {}",
                  plan.pipeline_stages, cluster.pipeline_stages);
  WEFT_USER_CHECK(cluster.virtual_stages == plan.virtual_stages,
                  "evaluate: the plan is for {} virtual stages a device, the cluster has {}",
                  plan.virtual_stages, cluster.virtual_stages);
  WEFT_USER_CHECK(
      plan.virtual_stages == 1 ||
          cost.num_layers % (std::int64_t{plan.pipeline_stages} * plan.virtual_stages) == 0,
      "evaluate: {} pipeline stages of {} virtual stages, but the cost '{}' has {} layers",
      plan.pipeline_stages, plan.virtual_stages, cost.name, cost.num_layers);
  WEFT_USER_CHECK(plan.pipeline_stages <= cost.num_layers,
                  "evaluate: {} pipeline stages, but the cost '{}' has {} layers",
                  plan.pipeline_stages, cost.name, cost.num_layers);
  Evaluation result;
  const Pass pass = time_micro_batches(plan, cost, cluster, result);
  const SlotOrder order = order_slots(plan);
  WEFT_USER_CHECK(order.cycle.empty(), "evaluate: cycle of slots: {}", describe_cycle(order.cycle));
  if (plan.pipeline_stages > 1) {
    WEFT_USER_CHECK(result.offloaded_micro_batches == 0,
                    "evaluate: {} micro-batches offload activations; their time is not known in "
                    "pipelines (here of {} stages)",
                    result.offloaded_micro_batches, plan.pipeline_stages);
    time_pipelines(plan, cost, order, pass.loads, result);
  } else {
    time_slots(plan, order, pass.loads, result);
  }
  summarize(plan, cluster, result);
  return result;
}

}  // namespace weft
