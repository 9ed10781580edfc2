// Sums gradients over ranks and measures their global norm.
#pragma once

#include "comm/communicator.h"
#include "tensor/tensor.h"

namespace weft {

// In place: flat [P] becomes the sum over ranks, in rank order, in its own dtype (fp32 or fp64), in buckets of
// `bucket_bytes`. All ranks get the same bits.
void all_reduce_gradients(Communicator& comm, const at::Tensor& flat, Bytes bucket_bytes, std::int64_t step);

// sqrt(sum of squares) in double; every element counted once. Not finite if any element is not.
double global_norm(const at::Tensor& flat);

// min(1, max_norm / norm); 1 when max_norm <= 0 (clipping off) or norm == 0.
double clip_scale(double norm, double max_norm);

}  // namespace weft
