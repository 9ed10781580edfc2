// Recompute: what a layer's forward throws away and its backward computes again.
//
// The same operations run again on the same bits, so gradients do not change by one bit; all that
// changes is memory and time. Attention recompute runs the group's ring a third time: every rank of
// a run must use the same mode.
#pragma once

#include "cost/recompute_mode.h"
#include "memory/saved_layer.h"

namespace weft {

// Frees what `recompute` computes again.
void drop_recomputed(Recompute recompute, SavedLayer& saved);

}  // namespace weft
