// RunPosition: where a run stands between two steps. With the parameters and moments it is all that
// a run needs to go on as if it had never stopped: there is no random state.
#pragma once

#include <cstdint>

#include "corpus/data_order.h"

namespace weft {

struct RunPosition {
  std::int64_t step = 0;               // steps done; the next step has this number
  std::int64_t num_updates = 0;        // of the optimizer: steps that were not skipped
  std::int64_t dropped_sequences = 0;  // by data.tail = "drop", so far
  DataOrderState reader;               // the next sequence to take
  friend bool operator==(const RunPosition&, const RunPosition&) = default;
};

}  // namespace weft
