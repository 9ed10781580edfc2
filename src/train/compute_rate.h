// The machine's rate for multiply-adds from registers, measured at start: the peak that MFU is a
// share of. Products of a BLAS are no limit: attention's own kernels may be faster.
#pragma once

#include <cstdint>
#include <string>

#include "machine/core_count.h"
#include "tensor/tensor.h"

namespace weft {

struct ComputePeak {
  double flops_per_s = 0;  // of all ranks together
  std::string source;  // "2 cores x 205.1 GFLOP/s, measured: float32 multiply-adds on one thread"
};

struct RanksOnCores {
  std::int32_t num_ranks = 1;         // of the run
  std::int32_t threads_per_rank = 1;  // that compute
  std::int32_t ranks_here = 1;        // in this process
  std::int32_t ranks_on_host = 1;
};

// Cores that all ranks together can use, hosts taken to be alike: of each rank no more than its
// threads, its part of the cores that its process may use (a launcher may have bound it to some),
// and its part of its host's.
double cores_of_run(const RanksOnCores& ranks, const CoreCount& cores);

// Best of a few samples on one thread, times cores_of_run(). Takes about 0.2 s.
ComputePeak measure_compute_peak(at::ScalarType dtype, const RanksOnCores& ranks);
// Of virtual ranks (comm/virtual/virtual_world.h): as if each had a core.
ComputePeak measure_virtual_peak(at::ScalarType dtype, std::int32_t num_ranks);

}  // namespace weft
