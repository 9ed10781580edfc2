#include "memory/recompute.h"

namespace weft {

void drop_recomputed(Recompute recompute, SavedLayer& saved) {
  if (recompute == Recompute::kNone) return;
  for (at::Tensor* tensor :
       {&saved.q, &saved.k, &saved.v, &saved.attention_out, &saved.attention_lse})
    tensor->reset();
  if (recompute == Recompute::kAttention) return;
  for (at::Tensor* tensor : {&saved.middle, &saved.middle_rstd, &saved.gate, &saved.up})
    tensor->reset();
}

}  // namespace weft
