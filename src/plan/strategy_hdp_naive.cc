#include "plan/packing.h"
#include "plan/plan_builder.h"
#include "plan/sequence_time.h"
#include "plan/strategy.h"

namespace weft {

// The paper leaves the assignment open ("assign items to the ranks by D"). Here every item, long
// sequences first (canonical order), takes the next D ranks round the axis.
void plan_hdp_naive(const PlanRequest& request, StepPlan& plan) {
  PlanBuilder builder(plan);
  const Tokens capacity = request.options.capacity;
  std::int64_t next_rank = 0;
  const auto take_ranks = [&](std::int32_t degree) {
    std::vector<Rank> ranks;
    for (std::int32_t i = 0; i < degree; ++i) {
      ranks.emplace_back(next_rank);
      next_rank = (next_rank + 1) % plan.num_ranks;
    }
    return ranks;
  };

  std::vector<PackableSequence> whole;
  for (std::size_t i = 0; i < plan.sequences.size(); ++i) {
    const Tokens tokens = plan.sequences[i].tokens;
    const auto sequence_idx = static_cast<std::int32_t>(i);
    if (tokens <= capacity) {
      whole.push_back({sequence_idx, tokens});
      continue;
    }
    builder.open_slot();
    builder.add_shared(sequence_idx, take_ranks(smallest_degree(tokens, capacity)));
  }
  for (const auto& bin : pack_best_fit(whole, capacity)) {
    builder.open_slot();
    const Rank rank = take_ranks(1).front();
    for (const std::int32_t sequence_idx : bin) builder.add_whole(sequence_idx, rank);
  }
}

}  // namespace weft
