#include "memory/recompute.h"

namespace weft {

void drop_recomputed(Recompute recompute, SavedLayer& saved) {
  if (recompute == Recompute::kNone) return;
  for (at::Tensor* tensor : {&saved.qkv, &saved.attention_out, &saved.attention_lse})
    tensor->reset();
  if (recompute == Recompute::kAttention) return;
  for (at::Tensor* tensor : {&saved.middle, &saved.middle_rstd, &saved.gate_up}) tensor->reset();
}

}  // namespace weft
