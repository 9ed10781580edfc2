// Learning rate: linear warm-up, then cosine decay. A pure function of the update number, so nothing has to be saved.
#pragma once

#include <cstdint>

namespace weft {

struct LearningRateSchedule {
  double peak = 3e-4;
  double minimum = 3e-5;
  std::int64_t warmup_steps = 0;
  std::int64_t total_steps = 1;

  // Update `index` counts from 0: peak * (index + 1) / warmup_steps during warm-up, then cosine from peak at
  // index = warmup_steps - 1 down to `minimum` at index = total_steps - 1; `minimum` after that.
  double at(std::int64_t index) const;
};

}  // namespace weft
