#include "plan/slot_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace weft {
namespace {

// Successors of every slot, one array with the slots' stretches behind one another.
struct SlotGraph {
  std::vector<std::size_t> first;  // [num_slots + 1]: edges of slot s are [first[s], first[s + 1])
  std::vector<std::int32_t> next;  // [edges]
  std::vector<std::int32_t> rank;  // [edges]: whose order demands it
  std::vector<std::int32_t> num_in;  // [num_slots]
};

void for_each_edge(const StepPlan& plan, const auto& visit) {
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const auto& micro_batches = plan.ranks[rank];
    for (std::size_t m = 1; m < micro_batches.size(); ++m) {
      visit(static_cast<std::int32_t>(rank), micro_batches[m - 1].slot_idx,
            micro_batches[m].slot_idx);
    }
  }
}

SlotGraph build_graph(const StepPlan& plan) {
  const auto num_slots = static_cast<std::size_t>(plan.num_slots);
  SlotGraph graph;
  graph.first.assign(num_slots + 1, 0);
  graph.num_in.assign(num_slots, 0);
  for_each_edge(plan, [&](std::int32_t, std::int32_t from, std::int32_t to) {
    ++graph.first[static_cast<std::size_t>(from) + 1];
    ++graph.num_in[static_cast<std::size_t>(to)];
  });
  std::partial_sum(graph.first.begin(), graph.first.end(), graph.first.begin());
  graph.next.resize(graph.first.back());
  graph.rank.resize(graph.first.back());
  std::vector<std::size_t> fill(graph.first.begin(), graph.first.end() - 1);
  for_each_edge(plan, [&](std::int32_t rank, std::int32_t from, std::int32_t to) {
    const std::size_t edge = fill[static_cast<std::size_t>(from)]++;
    graph.next[edge] = to;
    graph.rank[edge] = rank;
  });
  return graph;
}

// As most planners number slots: ascending on every rank, which is an order already.
bool ascend_on_every_rank(const StepPlan& plan) {
  for (const auto& micro_batches : plan.ranks) {
    std::int32_t previous = -1;
    for (const MicroBatch& micro_batch : micro_batches) {
      if (micro_batch.slot_idx <= previous) return false;
      previous = micro_batch.slot_idx;
    }
  }
  return true;
}

// Every slot that Kahn's algorithm leaves over has a predecessor that is left over too, so walking
// backwards must come round. REQUIRES: some num_in is above 0.
std::vector<SlotEdge> find_cycle(const SlotGraph& graph) {
  const std::size_t num_slots = graph.num_in.size();
  std::vector<SlotEdge> predecessor(num_slots, SlotEdge{-1, Rank(0)});
  std::size_t slot = num_slots;
  for (std::size_t from = 0; from < num_slots; ++from) {
    if (graph.num_in[from] == 0) continue;
    slot = std::min(slot, from);
    for (std::size_t edge = graph.first[from]; edge < graph.first[from + 1]; ++edge) {
      SlotEdge& known = predecessor[static_cast<std::size_t>(graph.next[edge])];
      if (known.slot_idx < 0) known = {static_cast<std::int32_t>(from), Rank(graph.rank[edge])};
    }
  }
  std::vector<bool> visited(num_slots, false);
  while (!visited[slot]) {
    visited[slot] = true;
    slot = static_cast<std::size_t>(predecessor[slot].slot_idx);
  }
  std::vector<SlotEdge> cycle;
  const std::size_t start = slot;
  do {
    cycle.push_back(predecessor[slot]);
    slot = static_cast<std::size_t>(predecessor[slot].slot_idx);
  } while (slot != start);
  std::reverse(cycle.begin(), cycle.end());
  return cycle;
}

}  // namespace

SlotOrder order_slots(const StepPlan& plan) {
  SlotOrder order;
  if (ascend_on_every_rank(plan)) {
    order.slots.resize(static_cast<std::size_t>(plan.num_slots));
    std::iota(order.slots.begin(), order.slots.end(), 0);
    return order;
  }
  SlotGraph graph = build_graph(plan);
  order.slots.reserve(graph.num_in.size());
  for (std::int32_t slot = 0; slot < plan.num_slots; ++slot) {
    if (graph.num_in[static_cast<std::size_t>(slot)] == 0) order.slots.push_back(slot);
  }
  for (std::size_t done = 0; done < order.slots.size(); ++done) {
    const auto slot = static_cast<std::size_t>(order.slots[done]);
    for (std::size_t edge = graph.first[slot]; edge < graph.first[slot + 1]; ++edge) {
      if (--graph.num_in[static_cast<std::size_t>(graph.next[edge])] == 0) {
        order.slots.push_back(graph.next[edge]);
      }
    }
  }
  if (order.slots.size() < graph.num_in.size()) order.cycle = find_cycle(graph);
  return order;
}

std::string describe_cycle(const std::vector<SlotEdge>& cycle) {
  constexpr std::size_t kShown = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(cycle.size(), kShown); ++i) {
    text += fmt::format("slot {} -(rank {})-> ", cycle[i].slot_idx, cycle[i].rank);
  }
  if (cycle.size() > kShown) text += fmt::format("... ({} more) -> ", cycle.size() - kShown);
  if (!cycle.empty()) text += fmt::format("slot {}", cycle.front().slot_idx);
  return text;
}

}  // namespace weft
