// Learning rate: linear warm-up, then cosine decay. A pure function of the update number, so
// nothing has to be saved.
//
// Invariants: never negative, never above `peak`; exactly `peak` at the last update of a warm-up
// that is not cut off; exactly `minimum` at the last update of the run (unless the warm-up fills
// the whole run) and ever after.
#pragma once

#include <cstdint>

namespace weft {

struct LearningRateSchedule {
  double peak = 3e-4;
  double minimum = 3e-5;  // at most `peak`
  std::int64_t warmup_steps = 0;
  std::int64_t total_steps = 1;

  // Update `index` counts from 0: peak * (index + 1) / warmup_steps during warm-up, then cosine
  // from peak at index = warmup_steps - 1 down to `minimum` at index = total_steps - 1; `minimum`
  // after that. Without warm-up the cosine starts at index -1, so update 0 is already one step
  // down. A warm-up as long as the run (or longer) ends with it: there is no decay then.
  double at(std::int64_t index) const;
};

}  // namespace weft
