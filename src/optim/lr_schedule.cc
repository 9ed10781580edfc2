#include "optim/lr_schedule.h"

#include <cmath>
#include <numbers>

#include "base/error.h"

namespace weft {

double LearningRateSchedule::at(std::int64_t index) const {
  WEFT_CHECK(index >= 0, "learning rate of update {}", index);
  if (index >= total_steps) return minimum;
  // The quotient first: at the end of the warm-up it is exactly 1, and so the rate exactly `peak`.
  if (index < warmup_steps) {
    return peak * (static_cast<double>(index + 1) / static_cast<double>(warmup_steps));
  }
  const double done = static_cast<double>(index + 1 - warmup_steps);
  const double progress = done / static_cast<double>(total_steps - warmup_steps);
  return minimum + 0.5 * (peak - minimum) * (1.0 + std::cos(std::numbers::pi * progress));
}

}  // namespace weft
