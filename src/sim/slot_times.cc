#include "sim/slot_times.h"

#include <algorithm>
#include <cmath>

#include "cost/micro_batch_time.h"
#include "plan/pipeline_time.h"
#include "sim/execution_spread.h"

namespace weft {
namespace {

std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }

Nanoseconds offloaded_forward(const CostModel& cost, double layer_ns, double copy_ns) {
  const double copied = std::max(0, cost.num_layers - 2);
  const double all = cost.num_layers * layer_ns + copied * std::max(0.0, copy_ns - layer_ns);
  return Nanoseconds(static_cast<std::int64_t>(std::ceil(all)));
}

}  // namespace

SlotTimes::SlotTimes(const SimulationInput& input)
    : input_(input), shares_(*input.plan, *input.cluster) {
  add_routes();
  add_members();
  finish_routes();
}

void SlotTimes::add_routes() {
  routes_.resize(at(shares_.num_rings()));
  member_tokens_.resize(routes_.size());
  for (std::size_t r = 0; r < routes_.size(); ++r) {
    const std::span<const Rank> ring = shares_.ranks_of(static_cast<std::int32_t>(r));
    member_tokens_[r].resize(ring.size());
    for (std::size_t i = 0; i < ring.size(); ++i) {
      const std::int32_t node = input_.cluster->node_of(ring[i]);
      if (node != input_.cluster->node_of(ring[(i + 1) % ring.size()]))
        routes_[r].sender_nodes.push_back(node);
    }
  }
}

void SlotTimes::place_members() {
  const StepPlan& plan = *input_.plan;
  first_member_.resize(at(plan.num_slots) + 1);
  for (const auto& list : plan.ranks) {
    for (const MicroBatch& m : list) ++first_member_[at(m.slot_idx) + 1];
  }
  for (std::size_t s = 0; s + 1 < first_member_.size(); ++s)
    first_member_[s + 1] += first_member_[s];
  members_.resize(first_member_.back());
}

void SlotTimes::add_members() {
  const StepPlan& plan = *input_.plan;
  place_members();
  std::vector<std::uint32_t> next(first_member_.begin(), first_member_.end() - 1);
  std::vector<RingShare> shares;
  std::vector<std::int32_t> rings;
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    for (std::size_t m = 0; m < plan.ranks[r].size(); ++m) {
      const MicroBatch& micro_batch = plan.ranks[r][m];
      shares_.collect(micro_batch, shares, &rings);
      SlotMember& member = members_[next[at(micro_batch.slot_idx)]++];
      member.rank = static_cast<std::int32_t>(r);
      member.micro_batch_idx = static_cast<std::int32_t>(m);
      member.tokens = micro_batch.tokens();
      member.offload_ratio = micro_batch.offload_ratio;
      member.copy_ns = offload_copy_ns(*input_.cost, member.tokens, micro_batch.offload_ratio);
      add_parts(shares, rings, member);
    }
  }
}

// In the order of layer_forward_time_ns, so that sums agree to the last bit.
void SlotTimes::add_parts(std::span<const RingShare> shares, std::span<const std::int32_t> rings,
                          SlotMember& member) {
  const CostModel& cost = *input_.cost;
  const double speed = input_.cluster->speed_of(Rank(member.rank));
  member.first_part = static_cast<std::uint32_t>(parts_.size());
  double compute = cost.fixed_ns;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const RingShare& share = shares[i];
    const auto tokens = static_cast<double>(share.tokens.value());
    const double attention = attention_ns(cost, share);
    compute += attention + cost.linear_ns_per_token * tokens;
    if (rings[i] == kNoRing) continue;
    RingRoute& route = routes_[at(rings[i])];
    parts_.push_back(
        {.ring = rings[i],
         .exchange_ns = exchange_ns(cost, share.degree, share.largest_member, share.is_in_node),
         .hidden_ns = attention / speed * static_cast<double>(share.degree - 1) /
                      static_cast<double>(share.degree),
         .degree = share.degree});
    route.tokens += tokens;
    const std::span<const Rank> ring = shares_.ranks_of(rings[i]);
    const auto place = std::find(ring.begin(), ring.end(), Rank(member.rank));
    member_tokens_[at(rings[i])][static_cast<std::size_t>(place - ring.begin())] = tokens;
  }
  member.num_parts = static_cast<std::uint32_t>(parts_.size()) - member.first_part;
  member.compute_ns = compute / speed;
  const double typical_ns = cost.num_layers * (1 + cost.backward_ratio) * member.compute_ns;
  member.compute_ns *= execution_factor(cost.spread_ns, input_.execution, member.rank,
                                        member.micro_batch_idx, typical_ns);
}

// Bytes as src/attention/ring.h counts them: on the link to member j, a layer forward sends
// S - t[j] tokens of K and V, a layer backward 2 S - t[j].
void SlotTimes::finish_routes() {
  std::vector<std::vector<std::int32_t>> by_slot(at(input_.plan->num_slots));
  for (std::size_t r = 0; r < routes_.size(); ++r) {
    RingRoute& route = routes_[r];
    const auto ring_idx = static_cast<std::int32_t>(r);
    const std::span<const Rank> ring = shares_.ranks_of(ring_idx);
    for (std::size_t i = 0; i < ring.size(); ++i) {
      const std::size_t next = (i + 1) % ring.size();
      const double sent = 3 * route.tokens - 2 * member_tokens_[r][next];
      const bool is_inside =
          input_.cluster->node_of(ring[i]) == input_.cluster->node_of(ring[next]);
      (is_inside ? route.node_tokens : route.nic_tokens) += sent;
    }
    if (!route.sender_nodes.empty()) by_slot[at(shares_.slot_of(ring_idx))].push_back(ring_idx);
  }
  member_tokens_.clear();
  first_routed_.push_back(0);
  for (const auto& list : by_slot) {
    routed_.insert(routed_.end(), list.begin(), list.end());
    first_routed_.push_back(static_cast<std::uint32_t>(routed_.size()));
  }
}

std::span<const SlotMember> SlotTimes::members(std::int32_t slot) const {
  return std::span(members_).subspan(first_member_[at(slot)],
                                     first_member_[at(slot) + 1] - first_member_[at(slot)]);
}

std::span<const RingPart> SlotTimes::parts(const SlotMember& member) const {
  return std::span(parts_).subspan(member.first_part, member.num_parts);
}

std::span<const std::int32_t> SlotTimes::routed_rings(std::int32_t slot) const {
  return std::span(routed_).subspan(first_routed_[at(slot)],
                                    first_routed_[at(slot) + 1] - first_routed_[at(slot)]);
}

double SlotTimes::exposed_ns(const SlotMember& member, std::span<const double> slowdown) const {
  double exposed = 0;
  for (const RingPart& part : parts(member))
    exposed += std::max(0.0, part.exchange_ns * slowdown[at(part.ring)] - part.hidden_ns);
  return exposed;
}

double SlotTimes::exposed_backward_ns(const SlotMember& member,
                                      std::span<const double> slowdown) const {
  const double ratio = input_.cost->backward_ratio;
  if (!input_.links.has_backward_messages) return ratio * exposed_ns(member, slowdown);
  double exposed = 0;
  for (const RingPart& part : parts(member)) {
    const double hop = part.exchange_ns * slowdown[at(part.ring)] / (part.degree - 1);
    exposed += std::max(hop, (2 * part.degree - 1) * hop - ratio * part.hidden_ns);
  }
  return exposed;
}

PassTime SlotTimes::pass_time(std::int32_t slot, std::int32_t virtual_stage,
                              std::span<const double> slowdown) const {
  const CostModel& cost = *input_.cost;
  const std::int32_t stages = input_.plan->pipeline_stages * input_.plan->virtual_stages;
  if (stages == 1) return single_stage_time(slot, slowdown);
  double forward_ns = 0, backward_ns = 0;
  for (const SlotMember& member : members(slot)) {
    forward_ns = std::max(forward_ns, member.compute_ns + exposed_ns(member, slowdown));
    backward_ns = std::max(backward_ns, cost.backward_ratio * member.compute_ns +
                                            exposed_backward_ns(member, slowdown));
  }
  const std::int32_t layers = layers_of_stage(cost.num_layers, stages, virtual_stage);
  return {.forward = forward_time(cost, forward_ns, layers),
          .backward = input_.links.has_backward_messages ? forward_time(cost, backward_ns, layers)
                                                         : backward_time(cost, forward_ns, layers)};
}

// Both passes together are rounded once, as evaluate() does.
PassTime SlotTimes::single_stage_time(std::int32_t slot, std::span<const double> slowdown) const {
  const CostModel& cost = *input_.cost;
  Nanoseconds forward;
  Nanoseconds both;
  for (const SlotMember& member : members(slot)) {
    const double exposed = exposed_ns(member, slowdown);
    const double layer_ns = member.compute_ns + exposed;
    // Beyond what evaluate() counts.
    const double more_ns = exposed_backward_ns(member, slowdown) - cost.backward_ratio * exposed;
    const Nanoseconds more(std::llround(cost.num_layers * more_ns));
    if (member.offload_ratio == 0) {
      forward = std::max(forward, forward_time(cost, layer_ns, cost.num_layers));
      both = std::max(both, all_layers(cost, layer_ns) + more);
    } else {
      forward = std::max(forward, offloaded_forward(cost, layer_ns, member.copy_ns));
      both = std::max(both, offloaded_time(cost, layer_ns, member.copy_ns) + more);
    }
  }
  forward = std::min(forward, both);
  return {.forward = forward, .backward = both - forward};
}

}  // namespace weft
