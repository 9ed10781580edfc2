#include "report/plan_view.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "cost/micro_batch_time.h"
#include "plan/plan_codec.h"
#include "plan/ring_shares.h"
#include "plan/validate.h"

namespace weft {
namespace {

double as_double(Nanoseconds time) { return static_cast<double>(time.value()); }

struct OwnTime {
  Nanoseconds whole;
  double exposed_exchange = 0;  // ns of it
  double exposed_copies = 0;
};

OwnTime own_time(const MicroBatch& micro_batch, std::span<const RingShare> shares,
                 const CostModel& cost) {
  const double layer_ns = layer_forward_time_ns(cost, shares, 1);
  const Nanoseconds computed = all_layers(cost, layer_ns);
  OwnTime time{.whole = computed};
  double exposed_ns = 0;
  for (const RingShare& share : shares) {
    if (share.degree > 1) exposed_ns += exposed_exchange_ns(cost, share, 1);
  }
  time.exposed_exchange = exposed_ns * cost.num_layers * (1 + cost.backward_ratio);
  if (micro_batch.offload_ratio > 0) {
    const double copy_ns = offload_copy_ns(cost, micro_batch.tokens(), micro_batch.offload_ratio);
    time.whole = offloaded_time(cost, layer_ns, copy_ns);
    time.exposed_copies = as_double(time.whole - computed);
  }
  return time;
}

// The parts of a micro-batch, one share each but for its whole sequences, which come last.
void add_parts(std::span<const RingShare> shares, std::span<const std::int32_t> rings,
               const CostModel& cost, std::vector<BoxPart>& parts) {
  const std::size_t first = parts.size();
  BoxPart whole;
  std::vector<double> weights;
  double whole_weight = 0;
  double total = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const double weight = cost.attention_ns_per_pair * static_cast<double>(shares[i].work) +
                          cost.linear_ns_per_token * static_cast<double>(shares[i].tokens.value());
    total += weight;
    if (rings[i] == kNoRing) {
      whole.tokens += shares[i].tokens;
      ++whole.num_sequences;
      whole_weight += weight;
      continue;
    }
    parts.push_back({.ring_idx = rings[i], .tokens = shares[i].tokens});
    weights.push_back(weight);
  }
  if (whole.num_sequences > 0) {
    parts.push_back(whole);
    weights.push_back(whole_weight);
  }
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double share = total > 0 ? weights[i] / total : 1 / static_cast<double>(weights.size());
    parts[first + i].permille = static_cast<std::int32_t>(std::lround(1000 * share));
  }
}

void add_boxes(const StepPlan& plan, const CostModel& cost, const ClusterSpec& cluster,
               PlanView& view) {
  const RingShares rings(plan, cluster);
  view.rings.resize(static_cast<std::size_t>(rings.num_rings()));
  std::vector<RingShare> shares;
  std::vector<std::int32_t> ring_of_share;
  view.first_box.push_back(0);
  for (const auto& micro_batches : plan.ranks) {
    for (const MicroBatch& micro_batch : micro_batches) {
      rings.collect(micro_batch, shares, &ring_of_share);
      const OwnTime time = own_time(micro_batch, shares, cost);
      view.boxes.push_back({.slot_idx = micro_batch.slot_idx,
                            .own_time = time.whole,
                            .tokens = micro_batch.tokens(),
                            .offload_ratio = micro_batch.offload_ratio,
                            .first_part = static_cast<std::uint32_t>(view.parts.size())});
      add_parts(shares, ring_of_share, cost, view.parts);
      view.split.exposed_exchange += time.exposed_exchange / plan.pipeline_stages;
      view.split.exposed_copies += time.exposed_copies;
    }
    view.first_box.push_back(static_cast<std::uint32_t>(view.boxes.size()));
  }
}

// REQUIRES: the boxes are there. A ring's groups lie together in the plan.
void describe_rings(const StepPlan& plan, PlanView& view) {
  for (const BoxPart& part : view.parts) {
    if (part.ring_idx == kWholeSequences) continue;
    view.rings[static_cast<std::size_t>(part.ring_idx)].tokens += part.tokens;
  }
  const RingShares rings(plan);
  std::size_t g = 0;
  for (std::int32_t r = 0; r < rings.num_rings(); ++r) {
    SharedRing& ring = view.rings[static_cast<std::size_t>(r)];
    const auto ranks = rings.ranks_of(r);
    ring.degree = static_cast<std::int32_t>(ranks.size());
    Tokens longest, found;
    for (; found < ring.tokens; ++g) {
      const auto s = static_cast<std::size_t>(plan.groups[g].sequence_idx);
      const SequenceSpec& sequence = plan.sequences[s];
      found += sequence.tokens;
      ++ring.num_sequences;
      if (sequence.tokens <= longest) continue;
      longest = sequence.tokens;
      ring.longest_id = sequence.id;
    }
  }
}

// Where evaluate() and the boxes speak of the same time they must agree to the nanosecond.
void check_busy(const StepPlan& plan, const PlanView& view) {
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    Nanoseconds busy;
    for (std::size_t b = view.first_box[r]; b < view.first_box[r + 1]; ++b)
      busy += view.boxes[b].own_time;
    WEFT_CHECK_EQ(busy / plan.pipeline_stages, view.evaluation.ranks[r].busy,
                  "busy time of rank {}", r);
  }
}

void split_waiting(PlanView& view) {
  const Evaluation& evaluation = view.evaluation;
  double busy = 0;
  for (std::size_t r = 0; r < evaluation.ranks.size(); ++r) {
    const RankTime& rank = evaluation.ranks[r];
    busy += as_double(rank.busy);
    view.split.after_last += as_double(evaluation.makespan - rank.finish);
    if (view.pipeline_stages > 1) {
      view.split.wait_in_slot += as_double(rank.finish - rank.busy);
      continue;
    }
    Nanoseconds free_at;
    for (std::size_t b = view.first_box[r]; b < view.first_box[r + 1]; ++b) {
      const SlotTime& slot = evaluation.slots[static_cast<std::size_t>(view.boxes[b].slot_idx)];
      view.split.wait_for_slot += as_double(slot.start - free_at);
      view.split.wait_in_slot += as_double(slot.end - slot.start - view.boxes[b].own_time);
      free_at = slot.end;
    }
  }
  view.split.compute = busy - view.split.exposed_exchange - view.split.exposed_copies;
}

void add_notes(PlanView& view) {
  if (view.evaluation.makespan != view.planned_makespan) {
    view.notes.push_back(fmt::format(
        "The plan says that it takes {}; under the cost '{}', on equal ranks, it takes {}. It was "
        "made with another cost file or for ranks of unequal speed; times here are of this cost.",
        format_duration(view.planned_makespan), view.cost_name,
        format_duration(view.evaluation.makespan)));
  }
  if (view.pipeline_stages > 1) {
    view.notes.push_back(fmt::format(
        "Every rank is a pipeline of {} stages. A box lasts from the first stage's forward pass to "
        "its backward pass, so boxes of one rank overlap; busy time is the mean of the stages.",
        view.pipeline_stages));
  }
}

}  // namespace

std::array<double, 6> values(const TimeSplit& split) {
  return {split.compute,      split.exposed_exchange, split.exposed_copies,
          split.wait_in_slot, split.wait_for_slot,    split.after_last};
}

PlanView view_plan(const StepPlan& plan, const CostModel& cost, const std::string& name,
                   std::int32_t ranks_per_node) {
  validate(plan);
  ClusterSpec cluster = uniform_cluster(plan.num_ranks, ranks_per_node);
  cluster.pipeline_stages = plan.pipeline_stages;
  cluster.virtual_stages = plan.virtual_stages;
  PlanView view{.name = name,
                .strategy = plan.strategy,
                .hash = plan_hash(plan).hex(),
                .cost_name = cost.name,
                .step = plan.step,
                .pipeline_stages = plan.pipeline_stages,
                .capacity = plan.capacity,
                .num_sequences = static_cast<std::int64_t>(plan.sequences.size()),
                .planned_makespan = plan.makespan,
                .lower_bound = plan.lower_bound,
                .gap = plan.gap(),
                .evaluation = evaluate(plan, cost, cluster)};
  for (const SequenceSpec& sequence : plan.sequences) {
    view.tokens += sequence.tokens;
    view.lengths.add(sequence.tokens);
  }
  view.exchange_bytes = static_cast<double>(view.evaluation.exchange_tokens.value()) *
                        cost.kv_bytes_per_token * cost.num_layers;
  add_boxes(plan, cost, cluster, view);
  describe_rings(plan, view);
  check_busy(plan, view);
  split_waiting(view);
  add_notes(view);
  return view;
}

}  // namespace weft
