// Forward attention of one block of lanes in the widest vectors that the processor has.
#pragma once

#include <cstdint>

#include "attention/attention_kernel.h"
#include "attention/simd/query_lanes.h"

namespace weft {

// Elements of scratch that a call needs, whatever the runs.
std::int64_t forward_scratch_size(std::int64_t head_dim);

template <class T>
struct ForwardTask {
  const ForwardPair<T>* pair = nullptr;
  LaneBlock block;
};

// Merges the attention of the block's lanes to all keys of the pair into out and lse. The rows of
// `next`, unless null, are asked for meanwhile. `scratch`: forward_scratch_size elements.
void forward_lanes(const ForwardTask<float>& task, const ForwardTask<float>* next, float* scratch);
void forward_lanes(const ForwardTask<double>& task, const ForwardTask<double>* next,
                   double* scratch);

}  // namespace weft
