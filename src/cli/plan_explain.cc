#include "cli/plan_explain.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace weft {
namespace {

constexpr std::size_t kMostPartsInTable = 16;

void print_alone(const SequenceExplanation& about) {
  fmt::print("\n  {:>8} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11}   alone, a member's time\n",
             "degree", "attention", "linear", "fixed", "exchange", "exposed", "total");
  for (const AloneTime& time : about.alone) {
    std::string note;
    if (time.degree == about.least_degree) note += "   least";
    if (time.degree == about.degree) note += "   chosen";
    fmt::print("  {:>8} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11}{}\n", time.degree,
               format_duration(time.attention), format_duration(time.linear),
               format_duration(time.fixed), format_duration(time.exchange),
               format_duration(time.exposed), format_duration(time.total), note);
  }
}

void print_parts(const SequenceExplanation& about) {
  fmt::print("\n  {:>8} {:>6} {:>14} {:>11} {:>13} {:>11} {:>11}\n", "rank", "node", "micro-batch",
             "tokens", "other tokens", "free at", "waits");
  const std::size_t shown = std::min(kMostPartsInTable, about.parts.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const ExplainedPart& part = about.parts[i];
    fmt::print("  {:>8} {:>6} {:>14} {:>11} {:>13} {:>11} {:>11}\n", part.rank, part.node,
               fmt::format("{} of {}", part.micro_batch_idx + 1, part.num_micro_batches),
               part.tokens, part.other_tokens, format_duration(part.free_at),
               format_duration(about.slot.start - part.free_at));
  }
  if (shown < about.parts.size())
    fmt::print("  and {} more in ring order (--json lists them all)\n", about.parts.size() - shown);
}

nlohmann::ordered_json bounds_json(const LowerBound& bound) {
  return {{"work_ns", bound.work.value()},       {"longest_ns", bound.longest.value()},
          {"in_turn_ns", bound.in_turn.value()}, {"spread_ns", bound.spread.value()},
          {"memory_ns", bound.memory.value()},   {"crowded_ns", bound.crowded.value()},
          {"priced_ns", bound.priced.value()},   {"deciding", std::string(deciding_bound(bound))}};
}

}  // namespace

void print_explanation(const SequenceExplanation& about, const StepPlan& plan) {
  fmt::print("sequence {}     {} tokens, number {} of {} by length\n", about.sequence.id,
             about.sequence.tokens, about.sequence_idx + 1, plan.sequences.size());
  fmt::print("degree         {} (at least {})\n", about.degree, about.least_degree);
  fmt::print("  why          {}\n", about.why_degree);
  if (about.degree == 1) {
    fmt::print("rank           {}\n", about.parts.front().rank);
  } else {
    fmt::print("ranks          {} to {} in ring order\n", about.parts.front().rank,
               about.parts.back().rank);
  }
  fmt::print("  why          {}\n", about.why_ranks);
  if (about.offload_ratio > 0)
    fmt::print("offload        ratio up to {:.4f}\n", about.offload_ratio);
  fmt::print(
      "runs           in slot {}, from {} to {}: {:.1f} % of the makespan, {:.2f} % of all "
      "rank time\n",
      about.slot_idx, format_duration(about.slot.start), format_duration(about.slot.end),
      100 * about.makespan_share, 100 * about.rank_time_share);
  fmt::print("bound driven   {}\n", about.why_bound);
  print_alone(about);
  print_parts(about);
}

std::string explanation_json_member(const SequenceExplanation& about) {
  nlohmann::ordered_json json;
  json["id"] = about.sequence.id;
  json["tokens"] = about.sequence.tokens.value();
  json["sequence_idx"] = about.sequence_idx;
  json["least_degree"] = about.least_degree;
  json["degree"] = about.degree;
  json["offload_ratio"] = about.offload_ratio;
  json["slot_idx"] = about.slot_idx;
  json["start_ns"] = about.slot.start.value();
  json["end_ns"] = about.slot.end.value();
  json["makespan_share"] = about.makespan_share;
  json["rank_time_share"] = about.rank_time_share;
  json["num_nodes"] = about.num_nodes;
  json["least_nodes"] = about.least_nodes;
  json["why_degree"] = about.why_degree;
  json["why_ranks"] = about.why_ranks;
  json["why_bound"] = about.why_bound;
  for (const AloneTime& time : about.alone) {
    json["alone"].push_back({{"degree", time.degree},
                             {"attention_ns", time.attention.value()},
                             {"linear_ns", time.linear.value()},
                             {"fixed_ns", time.fixed.value()},
                             {"exchange_ns", time.exchange.value()},
                             {"exposed_ns", time.exposed.value()},
                             {"total_ns", time.total.value()}});
  }
  for (const ExplainedPart& part : about.parts) {
    json["parts"].push_back({{"rank", part.rank.value()},
                             {"node", part.node},
                             {"micro_batch_idx", part.micro_batch_idx},
                             {"tokens", part.tokens.value()},
                             {"other_tokens", part.other_tokens.value()},
                             {"free_at_ns", part.free_at.value()}});
  }
  json["bounds"] = bounds_json(about.bound);
  json["bounds_without"] = bounds_json(about.bound_without);
  return fmt::format("\"explanation\": {}", json.dump());
}

}  // namespace weft
