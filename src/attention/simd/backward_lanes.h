// Backward attention of one block of lanes in the widest vectors that the processor has.
#pragma once

#include <cstdint>

#include "attention/attention_kernel.h"
#include "attention/key_turns.h"
#include "attention/simd/query_lanes.h"

namespace weft {

template <class T>
struct BackwardTask {
  const BackwardPair<T>* pair = nullptr;
  LaneBlock block;
  KeyTurns turns;
};

// Elements of scratch that a call needs, whatever the runs.
std::int64_t backward_scratch_size(std::int64_t head_dim);

// Adds to d_q of the block's lanes, and their share to d_k and d_v, block of keys by block of keys
// (backward_block_sizes), each in its turn. `scratch`: backward_scratch_size elements.
void backward_lanes(const BackwardTask<float>& task, float* scratch);
void backward_lanes(const BackwardTask<double>& task, double* scratch);

}  // namespace weft
