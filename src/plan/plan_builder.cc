#include "plan/plan_builder.h"

#include "base/error.h"

namespace weft {

PlanBuilder::PlanBuilder(StepPlan& plan) : plan_(plan) {
  plan_.ranks.resize(static_cast<std::size_t>(plan_.num_ranks));
}

void PlanBuilder::open_slot() { ++plan_.num_slots; }

MicroBatch& PlanBuilder::micro_batch_of(Rank rank) {
  auto& list = plan_.ranks[static_cast<std::size_t>(rank.value())];
  const std::int32_t slot_idx = plan_.num_slots - 1;
  if (list.empty() || list.back().slot_idx != slot_idx) {
    list.push_back({.slot_idx = slot_idx, .offload_ratio = 0, .pieces = {}});
  }
  return list.back();
}

void PlanBuilder::add_whole(std::int32_t sequence_idx, Rank rank) {
  const Tokens tokens = plan_.sequences[static_cast<std::size_t>(sequence_idx)].tokens;
  micro_batch_of(rank).pieces.push_back(
      {.sequence_idx = sequence_idx, .group_idx = kNoGroup, .range = {0, tokens.value()}});
}

void PlanBuilder::add_shared(std::int32_t sequence_idx, std::span<const Rank> ranks) {
  if (ranks.size() == 1) return add_whole(sequence_idx, ranks.front());
  const Tokens tokens = plan_.sequences[static_cast<std::size_t>(sequence_idx)].tokens;
  const auto degree = static_cast<std::int32_t>(ranks.size());
  WEFT_CHECK(degree >= 2 && degree <= tokens.value(), "{} tokens over {} ranks", tokens, degree);
  const auto group_idx = static_cast<std::int32_t>(plan_.groups.size());
  plan_.groups.push_back({.sequence_idx = sequence_idx,
                          .slot_idx = plan_.num_slots - 1,
                          .ranks = {ranks.begin(), ranks.end()}});
  for (std::int32_t position = 0; position < degree; ++position) {
    MicroBatch& micro_batch = micro_batch_of(ranks[static_cast<std::size_t>(position)]);
    for (const TokenRange range : zigzag_ranges(tokens, degree, position)) {
      micro_batch.pieces.push_back(
          {.sequence_idx = sequence_idx, .group_idx = group_idx, .range = range});
    }
  }
}

}  // namespace weft
