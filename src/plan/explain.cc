#include "plan/explain.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "base/error.h"
#include "cost/micro_batch_time.h"
#include "plan/group_costs.h"
#include "plan/offload.h"
#include "plan/sequence_time.h"

namespace weft {
namespace {

std::size_t find_sequence(const StepPlan& plan, std::int64_t id) {
  const auto& sequences = plan.sequences;
  WEFT_USER_CHECK(!sequences.empty(), "plan: no sequence {}: step {} has none at all", id,
                  plan.step);
  const auto has_id = [&](const SequenceSpec& sequence) { return sequence.id == id; };
  const auto found = std::find_if(sequences.begin(), sequences.end(), has_id);
  if (found != sequences.end()) return static_cast<std::size_t>(found - sequences.begin());
  const auto [least, most] =
      std::minmax_element(sequences.begin(), sequences.end(),
                          [](const SequenceSpec& a, const SequenceSpec& b) { return a.id < b.id; });
  throw_user_error("plan: no sequence {} in step {}: it has {} sequences, with ids from {} to {}",
                   id, plan.step, sequences.size(), least->id, most->id);
}

AloneTime alone_time(const CostModel& cost, Tokens tokens, std::int32_t degree) {
  const Tokens largest((tokens.value() + degree - 1) / degree);
  const RingShare share{.work = causal_work({0, tokens.value()}) / degree,
                        .tokens = largest,
                        .degree = degree,
                        .largest_member = largest};
  return {
      .degree = degree,
      .attention = all_layers(cost, attention_ns(cost, share)),
      .linear = all_layers(cost, cost.linear_ns_per_token * static_cast<double>(largest.value())),
      .fixed = all_layers(cost, cost.fixed_ns),
      .exchange = all_layers(cost, exchange_ns(cost, degree, largest)),
      .exposed = all_layers(cost, exposed_exchange_ns(cost, share, 1.0)),
      .total = sequence_time(cost, tokens, degree, 1.0)};
}

// On the ranks that it has, or on others at their best place.
AloneTime alone_time(const GroupCosts& costs, const SequenceExplanation& about,
                     std::int32_t degree) {
  const bool is_own = degree == about.degree;
  const CostModel& own = about.num_nodes == 1 ? costs.inside() : costs.between();
  return alone_time(is_own ? own : costs.at_best(degree), about.sequence.tokens, degree);
}

// The least degree, and those around the chosen one.
std::vector<AloneTime> alone_times(const GroupCosts& costs, const StepPlan& plan,
                                   const SequenceExplanation& about) {
  const auto most = static_cast<std::int32_t>(
      std::min<std::int64_t>(plan.num_ranks, about.sequence.tokens.value()));
  std::set<std::int32_t> degrees;
  for (const std::int32_t degree :
       {about.least_degree, about.degree - 1, about.degree, about.degree + 1, 2 * about.degree}) {
    if (degree >= 1 && degree >= std::min(about.degree, about.least_degree) && degree <= most)
      degrees.insert(degree);
  }
  degrees.insert(about.degree);
  std::vector<AloneTime> times;
  for (const std::int32_t degree : degrees) times.push_back(alone_time(costs, about, degree));
  return times;
}

// Fewest ranks whose capacities hold the tokens.
std::int32_t fewest_ranks(const StepPlan& plan, Tokens tokens) {
  if (plan.rank_capacity.empty()) return smallest_degree(tokens, plan.capacity);
  std::vector<Tokens> capacities = plan.rank_capacity;
  std::sort(capacities.begin(), capacities.end(), std::greater<>());
  Tokens held;
  std::int32_t degree = 0;
  while (held < tokens) held += capacities[static_cast<std::size_t>(degree++)];
  return degree;
}

// Parts in ring order of the group, or the one of a whole sequence; sets slot_idx.
void find_parts(const StepPlan& plan, const Evaluation& evaluation, const ClusterSpec& cluster,
                SequenceExplanation& about) {
  std::vector<Rank> ring;
  for (const Group& group : plan.groups) {
    if (group.sequence_idx == about.sequence_idx) ring = group.ranks;
  }
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    const auto& micro_batches = plan.ranks[r];
    for (std::size_t m = 0; m < micro_batches.size(); ++m) {
      Tokens own;
      for (const Piece& piece : micro_batches[m].pieces) {
        if (piece.sequence_idx == about.sequence_idx) own += Tokens(piece.range.size());
      }
      if (own == Tokens(0)) continue;
      const Rank rank(static_cast<std::int64_t>(r));
      ExplainedPart& part = about.parts.emplace_back(
          ExplainedPart{.rank = rank,
                        .node = cluster.node_of(rank),
                        .micro_batch_idx = static_cast<std::int64_t>(m),
                        .num_micro_batches = static_cast<std::int64_t>(micro_batches.size()),
                        .tokens = own,
                        .other_tokens = micro_batches[m].tokens() - own,
                        .free_at = {}});
      if (m > 0) {
        const auto before = static_cast<std::size_t>(micro_batches[m - 1].slot_idx);
        part.free_at = evaluation.slots[before].end;
      }
      about.slot_idx = micro_batches[m].slot_idx;
      about.offload_ratio = std::max(about.offload_ratio, micro_batches[m].offload_ratio);
    }
  }
  const auto place = [&](const ExplainedPart& part) {
    return std::find(ring.begin(), ring.end(), part.rank) - ring.begin();
  };
  const Nanoseconds start = evaluation.slots[static_cast<std::size_t>(about.slot_idx)].start;
  for (ExplainedPart& part : about.parts) part.free_at = std::min(part.free_at, start);
  std::stable_sort(
      about.parts.begin(), about.parts.end(),
      [&](const ExplainedPart& a, const ExplainedPart& b) { return place(a) < place(b); });
}

std::string explain_degree(const SequenceExplanation& about, const StepPlan& plan,
                           const GroupCosts& costs) {
  const Tokens tokens = about.sequence.tokens;
  const AloneTime least = alone_time(costs, about, about.least_degree);
  const AloneTime own = alone_time(costs, about, about.degree);
  if (about.degree < about.least_degree) {
    return fmt::format(
        "{} of its activations wait in host memory, so {} {} it instead of {}; alone it takes {} "
        "there",
        fmt::format("{:.1f} %", 100 * about.offload_ratio), about.degree,
        about.degree == 1 ? "rank holds" : "ranks hold", about.least_degree,
        format_duration(own.total));
  }
  if (about.degree == 1) {
    std::string text =
        fmt::format("its {} tokens fit on one rank, which holds {}, so it needs no exchange",
                    tokens, plan.capacity);
    if (plan.num_ranks == 1 || tokens < Tokens(2)) return text;
    const AloneTime shared = alone_time(costs, about, 2);
    return text +
           fmt::format("; two ranks would take {} each instead of {}, {} more in all",
                       format_duration(shared.total), format_duration(own.total),
                       format_duration(std::max(Nanoseconds(0), 2 * shared.total - own.total)));
  }
  if (about.degree == about.least_degree) {
    return fmt::format(
        "{} is the fewest ranks that hold its {} tokens ({} a rank); {} of {} of exchange is not "
        "hidden",
        about.degree, tokens, plan.capacity, format_duration(own.exposed),
        format_duration(own.exchange));
  }
  std::string text = fmt::format("{} ranks would hold it, but alone it would take {} there",
                                 about.least_degree, format_duration(least.total));
  text += least.total > plan.makespan
              ? fmt::format(", longer than the whole step ({})", format_duration(plan.makespan))
              : fmt::format(", {:.0f} % of the step ({})", 100 * ratio(least.total, plan.makespan),
                            format_duration(plan.makespan));
  return text + fmt::format("; on {} it takes {}", about.degree, format_duration(own.total));
}

// Of a whole sequence: the shared one whose micro-batch it fills, if any.
std::string explain_beside(const ExplainedPart& part, const StepPlan& plan) {
  const auto& micro_batches = plan.ranks[static_cast<std::size_t>(part.rank.value())];
  for (const Piece& piece : micro_batches[static_cast<std::size_t>(part.micro_batch_idx)].pieces) {
    if (piece.group_idx == kNoGroup) continue;
    return fmt::format(
        ", which is the rank's part of shared sequence {}: it costs no micro-batch of its own and "
        "runs when that group does",
        plan.sequences[static_cast<std::size_t>(piece.sequence_idx)].id);
  }
  return "";
}

std::string explain_ranks(const SequenceExplanation& about, const StepPlan& plan,
                          const Evaluation& evaluation) {
  Nanoseconds first = about.parts.front().free_at;
  Nanoseconds last = first;
  for (const ExplainedPart& part : about.parts) {
    first = std::min(first, part.free_at);
    last = std::max(last, part.free_at);
  }
  if (about.degree == 1) {
    const auto r = static_cast<std::size_t>(about.parts.front().rank.value());
    Nanoseconds sum;
    for (const RankTime& rank : evaluation.ranks) sum += rank.busy;
    return fmt::format(
        "rank {} is busy for {} (mean of all ranks {}) and ends at {} of {}; it holds this "
        "sequence "
        "beside {} tokens of others in micro-batch {} of {}{}",
        about.parts.front().rank, format_duration(evaluation.ranks[r].busy),
        format_duration(sum / static_cast<std::int64_t>(evaluation.ranks.size())),
        format_duration(evaluation.ranks[r].finish), format_duration(plan.makespan),
        about.parts.front().other_tokens, about.parts.front().micro_batch_idx + 1,
        about.parts.front().num_micro_batches, explain_beside(about.parts.front(), plan));
  }
  return fmt::format(
      "{} ranks on {} node{} ({} at least); they became free between {} and {}, and the last of "
      "them "
      "sets the start",
      about.degree, about.num_nodes, about.num_nodes == 1 ? "" : "s", about.least_nodes,
      format_duration(first), format_duration(last));
}

std::string explain_bound(const SequenceExplanation& about) {
  const Nanoseconds with = about.bound.best();
  const Nanoseconds without = about.bound_without.best();
  const std::string_view name = deciding_bound(about.bound);
  if (without >= with) {
    return fmt::format("none: the bound of the step ({}, {}) is the same without it", name,
                       format_duration(with));
  }
  return fmt::format(
      "{}: without this sequence the bound of the step would fall from {} to {} (by {:.2f} %)",
      name, format_duration(with), format_duration(without), 100 * ratio(with - without, with));
}

}  // namespace

std::string_view deciding_bound(const LowerBound& bound) {
  const std::array<std::pair<std::string_view, Nanoseconds>, 7> named{{{"work", bound.work},
                                                                       {"longest", bound.longest},
                                                                       {"in turn", bound.in_turn},
                                                                       {"crowded", bound.crowded},
                                                                       {"spread", bound.spread},
                                                                       {"memory", bound.memory},
                                                                       {"priced", bound.priced}}};
  return std::max_element(named.begin(), named.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

SequenceExplanation explain_sequence(const StepPlan& plan, const Evaluation& evaluation,
                                     const CostModel& cost, const ClusterSpec& cluster,
                                     std::int64_t id) {
  const std::size_t sequence_idx = find_sequence(plan, id);
  SequenceExplanation about;
  about.sequence = plan.sequences[sequence_idx];
  about.sequence_idx = static_cast<std::int64_t>(sequence_idx);
  about.least_degree = fewest_ranks(plan, about.sequence.tokens);
  find_parts(plan, evaluation, cluster, about);
  about.degree = static_cast<std::int32_t>(about.parts.size());
  std::set<std::int32_t> nodes;
  for (const ExplainedPart& part : about.parts) nodes.insert(part.node);
  about.num_nodes = static_cast<std::int32_t>(nodes.size());
  about.least_nodes = (about.degree - 1) / cluster.ranks_per_node + 1;
  const GroupCosts costs(cost, cluster);
  about.alone = alone_times(costs, plan, about);

  about.slot = evaluation.slots[static_cast<std::size_t>(about.slot_idx)];
  const Nanoseconds duration = about.slot.end - about.slot.start;
  double busy = 0;
  for (const RankTime& rank : evaluation.ranks) busy += static_cast<double>(rank.busy.value());
  if (evaluation.makespan > Nanoseconds(0)) {
    about.makespan_share = ratio(duration, evaluation.makespan);
    about.rank_time_share = static_cast<double>(duration.value()) * about.degree / busy;
  }

  // What a rank holds of a micro-batch at most; more where the plan offloads.
  const Tokens most = evaluation.offloaded_micro_batches > 0
                          ? most_offloaded(plan.capacity, plan.num_layers)
                          : plan.capacity;
  about.bound = lower_bound(plan.sequences, cost, cluster, most);
  std::vector<SequenceSpec> others = plan.sequences;
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(sequence_idx));
  about.bound_without = lower_bound(others, cost, cluster, most);
  about.why_degree = explain_degree(about, plan, costs);
  about.why_ranks = explain_ranks(about, plan, evaluation);
  about.why_bound = explain_bound(about);
  return about;
}

}  // namespace weft
