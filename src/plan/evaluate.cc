#include "plan/evaluate.h"

#include <algorithm>

#include "base/error.h"
#include "cost/micro_batch_time.h"
#include "plan/pipeline_time.h"
#include "plan/slot_order.h"

namespace weft {
namespace {

// Both times and work come near 2^63 for one sequence of 2^32 tokens; their sums need not fit.
void add(std::int64_t& sum, std::int64_t value, std::string_view what) {
  WEFT_USER_CHECK(!__builtin_add_overflow(sum, value, &sum),
                  "evaluate: the {} exceeds 2^63; plan fewer or shorter sequences", what);
}

void add(Nanoseconds& sum, Nanoseconds value) {
  std::int64_t ns = sum.value();
  add(ns, value.value(), "time in nanoseconds");
  sum = Nanoseconds(ns);
}

// Most tokens that a member of each group holds.
std::vector<Tokens> largest_members(const StepPlan& plan) {
  std::vector<Tokens> largest(plan.groups.size());
  for (const auto& micro_batches : plan.ranks) {
    for (const MicroBatch& micro_batch : micro_batches) {
      for (std::size_t p = 0; p < micro_batch.pieces.size();) {
        const std::int32_t group_idx = micro_batch.pieces[p].group_idx;
        std::int64_t tokens = 0;
        const std::size_t first = p;
        while (p < micro_batch.pieces.size() && micro_batch.pieces[p].group_idx == group_idx &&
               (p == first || group_idx != kNoGroup)) {
          tokens += micro_batch.pieces[p++].range.size();
        }
        if (group_idx == kNoGroup) continue;
        Tokens& member = largest[static_cast<std::size_t>(group_idx)];
        member = std::max(member, Tokens(tokens));
      }
    }
  }
  return largest;
}

// Groups that follow each other in a slot with the same ranks are one ring: a packed micro-batch
// that is shared as a whole pays each hop once.
std::vector<std::int32_t> rings_of_groups(const StepPlan& plan) {
  std::vector<std::int32_t> rings(plan.groups.size());
  std::int32_t ring = 0;
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    const bool same = g > 0 && plan.groups[g - 1].slot_idx == plan.groups[g].slot_idx &&
                      plan.groups[g - 1].ranks == plan.groups[g].ranks;
    rings[g] = same || g == 0 ? ring : ++ring;
  }
  return rings;
}

// One share for each whole sequence and each ring of a micro-batch. Groups ascend and the pieces of
// a group lie together (validate), but whole sequences may stand between the groups of one ring.
void collect_shares(const StepPlan& plan, const MicroBatch& micro_batch,
                    const std::vector<Tokens>& largest, const std::vector<std::int32_t>& rings,
                    std::vector<RingShare>& shares) {
  shares.clear();
  std::size_t ring_share = 0;  // of previous_ring
  std::int32_t previous_ring = -1;
  std::int32_t previous_group = kNoGroup;
  for (const Piece& piece : micro_batch.pieces) {
    std::size_t mine = shares.size();
    if (piece.group_idx != kNoGroup) {
      const auto g = static_cast<std::size_t>(piece.group_idx);
      if (rings[g] == previous_ring) mine = ring_share;
      if (mine == shares.size()) shares.emplace_back();
      if (piece.group_idx != previous_group) {
        shares[mine].degree = static_cast<std::int32_t>(plan.groups[g].ranks.size());
        shares[mine].largest_member += largest[g];
      }
      ring_share = mine;
      previous_ring = rings[g];
      previous_group = piece.group_idx;
    } else {
      shares.emplace_back();
    }
    add(shares[mine].work, causal_work(piece.range), "work of a ring");
    shares[mine].tokens += Tokens(piece.range.size());
  }
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
  const std::vector<Tokens> largest = largest_members(plan);
  const std::vector<std::int32_t> rings = rings_of_groups(plan);

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
      collect_shares(plan, micro_batch, largest, rings, shares);
      const double time_ns = layer_forward_time_ns(cost, shares, speed);
      const Nanoseconds time = own_time(micro_batch, cost, time_ns, result);
      add(rank.busy, time);
      ++rank.num_micro_batches;
      for (const RingShare& share : shares) {
        rank.tokens += share.tokens;
        add(rank.work, share.work, "work of a rank");
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
