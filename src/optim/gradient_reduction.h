// Sums gradients over ranks and measures their global norm. The gradient of a step is the plain sum
// of every micro-batch's share on every rank (ByteScale Eq. 1-2: each share already carries w_t /
// W), so nothing is divided here. Letters: P parameters, each once.
#pragma once

#include "comm/communicator.h"
#include "tensor/tensor.h"

namespace weft {

// In place: flat [P] becomes the sum over ranks, in rank order, in its own dtype (fp32 or fp64), in
// buckets of `bucket_bytes` (at least one element each; a power of two is not needed). All ranks
// get the same bits, and the same bits for every bucket size. Bucket i is the exchange labelled
// "gradient all_reduce" with hop i.
void all_reduce_gradients(Communicator& comm, const at::Tensor& flat, Bytes bucket_bytes,
                          std::int64_t step);

// sqrt(sum of squares) of flat [P] in double, in one fixed order; every element counted once. Not
// finite if any element is not. (Float elements cannot overflow it; doubles beyond 1e154 do, and
// count as not finite.)
double global_norm(const at::Tensor& flat);

// min(1, max_norm / norm); 1 when max_norm <= 0 (clipping off) or norm == 0. REQUIRES: norm is
// finite.
double clip_scale(double norm, double max_norm);

}  // namespace weft
