#include "plan/evaluate.h"

#include <algorithm>

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

// Slots one after another on each rank.
void time_slots(const StepPlan& plan, const SlotOrder& order,
                const std::vector<Nanoseconds>& duration, Evaluation& result) {
  // The ranks of each slot in one array: those of slot s end at first[s] once they are in place.
  std::vector<std::uint32_t> first(result.slots.size() + 1);
  for (const auto& micro_batches : plan.ranks) {
    for (const MicroBatch& m : micro_batches) ++first[static_cast<std::size_t>(m.slot_idx) + 1];
  }
  for (std::size_t s = 0; s < result.slots.size(); ++s) first[s + 1] += first[s];
  std::vector<std::uint32_t> members(first.back());
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    for (const MicroBatch& m : plan.ranks[r])
      members[first[static_cast<std::size_t>(m.slot_idx)]++] = static_cast<std::uint32_t>(r);
  }

  for (const std::int32_t slot_idx : order.slots) {
    const auto s = static_cast<std::size_t>(slot_idx);
    SlotTime& slot = result.slots[s];
    const std::size_t begin = s == 0 ? 0 : first[s - 1];
    for (std::size_t i = begin; i < first[s]; ++i)
      slot.start = std::max(slot.start, result.ranks[members[i]].finish);
    slot.end = slot.start;
    add(slot.end, duration[s]);
    for (std::size_t i = begin; i < first[s]; ++i) result.ranks[members[i]].finish = slot.end;
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
                    const std::vector<double>& layer_ns, Evaluation& result) {
  run_pipelines({.plan = &plan, .layer_ns = layer_ns, .slot_order = order.slots}, cost,
                [&](const PipelinePass& pass) {
                  SlotTime& slot = result.slots[static_cast<std::size_t>(pass.slot_idx)];
                  if (pass.stage > 0) return;
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

}  // namespace

Evaluation evaluate(const StepPlan& plan, const CostModel& cost, const ClusterSpec& cluster) {
  validate(cluster);
  WEFT_USER_CHECK(cluster.num_ranks == plan.num_ranks,
                  "evaluate: the plan is for {} ranks, the cluster has {}", plan.num_ranks,
                  cluster.num_ranks);
  WEFT_USER_CHECK(cluster.pipeline_stages == plan.pipeline_stages,
                  "evaluate: the plan is for pipelines of {} stages, the cluster has {}",
                  plan.pipeline_stages, cluster.pipeline_stages);
  WEFT_USER_CHECK(plan.pipeline_stages <= cost.num_layers,
                  "evaluate: {} pipeline stages, but the cost '{}' has {} layers",
                  plan.pipeline_stages, cost.name, cost.num_layers);
  const RingShares rings(plan);

  Evaluation result;
  result.ranks.resize(plan.ranks.size());
  result.slots.resize(static_cast<std::size_t>(plan.num_slots));
  // Of the slowest rank of each slot.
  std::vector<double> layer_ns(result.slots.size());
  std::vector<Nanoseconds> duration(result.slots.size());
  std::vector<RingShare> shares;
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    const double speed = cluster.speed_of(Rank(static_cast<std::int64_t>(r)));
    RankTime& rank = result.ranks[r];
    for (const MicroBatch& micro_batch : plan.ranks[r]) {
      rings.collect(micro_batch, shares);
      const double time_ns = layer_forward_time_ns(cost, shares, speed);
      const Nanoseconds time = own_time(micro_batch, cost, time_ns, result);
      add(rank.busy, time);
      ++rank.num_micro_batches;
      for (const RingShare& share : shares) {
        rank.tokens += share.tokens;
        add_checked(rank.work, share.work, "work of a rank");
      }
      const auto s = static_cast<std::size_t>(micro_batch.slot_idx);
      layer_ns[s] = std::max(layer_ns[s], time_ns);
      duration[s] = std::max(duration[s], time);
    }
    rank.busy = rank.busy / plan.pipeline_stages;
  }
  const SlotOrder order = order_slots(plan);
  WEFT_USER_CHECK(order.cycle.empty(), "evaluate: cycle of slots: {}", describe_cycle(order.cycle));
  if (plan.pipeline_stages > 1) {
    WEFT_USER_CHECK(result.offloaded_micro_batches == 0,
                    "evaluate: {} micro-batches offload activations; their time is not known in "
                    "pipelines (here of {} stages)",
                    result.offloaded_micro_batches, plan.pipeline_stages);
    time_pipelines(plan, cost, order, layer_ns, result);
  } else {
    time_slots(plan, order, duration, result);
  }
  summarize(plan, cluster, result);
  return result;
}

}  // namespace weft
