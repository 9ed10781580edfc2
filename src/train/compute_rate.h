// The machine's rate for multiply-adds from registers, measured at start: the peak that MFU is a
// share of. Products of a BLAS are no limit: attention's own kernels may be faster.
#pragma once

#include <cstdint>
#include <string>

#include "tensor/tensor.h"

namespace weft {

struct ComputePeak {
  double flops_per_s = 0;  // of all ranks together
  std::string source;  // "2 cores x 205.1 GFLOP/s, measured: float32 multiply-adds on one thread"
};

// Best of a few samples on one thread, times the cores that num_ranks * threads_per_rank threads
// can use. Takes about 0.2 s.
ComputePeak measure_compute_peak(at::ScalarType dtype, std::int32_t num_ranks,
                                 std::int32_t threads_per_rank);
// Of virtual ranks (comm/virtual/virtual_world.h): as if each had a core.
ComputePeak measure_virtual_peak(at::ScalarType dtype, std::int32_t num_ranks);

}  // namespace weft
