#include "tests/unit/plan/plan_oracle.h"

#include <algorithm>

namespace weft {
namespace {

// The groups in which a rank exchanges, one entry an exchange: layer by layer within a micro-batch.
std::vector<std::int32_t> exchanges_of(const std::vector<MicroBatch>& micro_batches) {
  constexpr int kLayers = 2;  // one layer would not show that layers interleave
  std::vector<std::int32_t> exchanges;
  for (const MicroBatch& micro_batch : micro_batches) {
    for (int layer = 0; layer < kLayers; ++layer) {
      std::vector<std::int32_t> met;
      for (const Piece& piece : micro_batch.pieces) {
        if (piece.group_idx == kNoGroup) continue;
        if (std::find(met.begin(), met.end(), piece.group_idx) != met.end()) continue;
        met.push_back(piece.group_idx);
        exchanges.push_back(piece.group_idx);
      }
    }
  }
  return exchanges;
}

bool runs_to_its_end(const StepPlan& plan) {
  std::vector<std::vector<std::int32_t>> exchanges;
  for (const auto& micro_batches : plan.ranks) exchanges.push_back(exchanges_of(micro_batches));
  std::vector<std::size_t> next(exchanges.size(), 0);
  const auto stands_at = [&](Rank rank, std::int32_t group_idx) {
    const auto r = static_cast<std::size_t>(rank.value());
    return next[r] < exchanges[r].size() && exchanges[r][next[r]] == group_idx;
  };
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t g = 0; g < plan.groups.size(); ++g) {
      const auto group_idx = static_cast<std::int32_t>(g);
      const std::vector<Rank>& members = plan.groups[g].ranks;
      if (!std::all_of(members.begin(), members.end(),
                       [&](Rank rank) { return stands_at(rank, group_idx); })) {
        continue;
      }
      for (const Rank rank : members) ++next[static_cast<std::size_t>(rank.value())];
      progress = true;
    }
  }
  for (std::size_t r = 0; r < exchanges.size(); ++r) {
    if (next[r] < exchanges[r].size()) return false;
  }
  return true;
}

bool holds_every_token_once(const StepPlan& plan) {
  std::vector<std::vector<int>> times_held;
  for (const SequenceSpec& sequence : plan.sequences) {
    times_held.emplace_back(static_cast<std::size_t>(sequence.tokens.value()), 0);
  }
  for (const auto& micro_batches : plan.ranks) {
    for (const MicroBatch& micro_batch : micro_batches) {
      for (const Piece& piece : micro_batch.pieces) {
        for (std::int64_t t = piece.range.begin; t < piece.range.end; ++t) {
          ++times_held.at(static_cast<std::size_t>(piece.sequence_idx))
                .at(static_cast<std::size_t>(t));
        }
      }
    }
  }
  return std::all_of(times_held.begin(), times_held.end(), [](const std::vector<int>& times) {
    return std::all_of(times.begin(), times.end(), [](int n) { return n == 1; });
  });
}

}  // namespace

std::string flaw_when_run(const StepPlan& plan) {
  if (!holds_every_token_once(plan)) return "tokens";
  return runs_to_its_end(plan) ? "" : "deadlock";
}

}  // namespace weft
