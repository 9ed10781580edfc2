#include "plan/pass_order.h"

#include <algorithm>

#include "base/error.h"

namespace weft {

PassOrder::Place PassOrder::forward_at(std::int64_t number) const {
  const std::int64_t in_block = number % block();
  return {.idx = number / block() * num_stages_ + in_block % num_stages_,
          .chunk = static_cast<std::int32_t>(in_block / num_stages_)};
}

PassOrder::Place PassOrder::backward_at(std::int64_t number) const {
  Place place = forward_at(number);
  place.chunk = num_chunks_ - 1 - place.chunk;
  return place;
}

std::int64_t PassOrder::most_held(std::int32_t stage) const {
  const std::int64_t behind = num_stages_ - 1 - stage;
  if (num_chunks_ == 1) return behind + 1;
  return behind * 2 + std::int64_t{num_chunks_ - 1} * num_stages_ + 1;
}

std::int64_t PassOrder::priority(std::int64_t level, std::int32_t stage, std::int32_t chunk,
                                 bool is_forward) const {
  if (is_forward) return 2 * forward_number(level, chunk);
  return 2 * (backward_number(level, chunk) + most_held(stage)) - 1;
}

std::vector<std::int64_t> slot_levels(const StepPlan& plan,
                                      std::span<const std::int32_t> slot_order) {
  std::vector<std::vector<std::size_t>> ranks_of(slot_order.size());
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    for (const MicroBatch& m : plan.ranks[r])
      ranks_of[static_cast<std::size_t>(m.slot_idx)].push_back(r);
  }
  std::vector<std::int64_t> next(plan.ranks.size());  // the level that the rank's next slot has
  std::vector<std::int64_t> levels(slot_order.size());
  for (const std::int32_t slot : slot_order) {
    std::int64_t& level = levels[static_cast<std::size_t>(slot)];
    for (const std::size_t r : ranks_of[static_cast<std::size_t>(slot)])
      level = std::max(level, next[r]);
    for (const std::size_t r : ranks_of[static_cast<std::size_t>(slot)]) next[r] = level + 1;
  }
  return levels;
}

}  // namespace weft
