#include "cost/recompute_mode.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"

namespace weft {

Recompute parse_recompute(std::string_view name) {
  const auto found = std::find(kRecomputeNames.begin(), kRecomputeNames.end(), name);
  WEFT_USER_CHECK(found != kRecomputeNames.end(), "memory.recompute: expected one of {}, got '{}'",
                  fmt::join(kRecomputeNames, ", "), name);
  return static_cast<Recompute>(found - kRecomputeNames.begin());
}

std::int64_t saved_elements_per_token(const LayerSizes& sizes, Recompute recompute) {
  const std::int64_t normed = sizes.hidden_size + 1;  // a residual stream and its 1 / rms
  const std::int64_t attention =
      2 * (sizes.num_heads + sizes.num_kv_heads) * sizes.head_dim + sizes.num_heads;
  const std::int64_t feed_forward = 2 * sizes.intermediate_size;
  switch (recompute) {
    case Recompute::kNone:
      return 2 * normed + attention + feed_forward;
    case Recompute::kAttention:
      return 2 * normed + feed_forward;
    case Recompute::kFull:
      return normed;
  }
  throw_internal_error("a recompute mode of value {}", static_cast<int>(recompute));
}

}  // namespace weft
