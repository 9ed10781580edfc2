// The one header through which the data plane sees libtorch: tensors, dtypes, thread counts.
//
// Weft uses ATen tensors and kernels only; its autograd is the oracle of the tests. Code that
// includes this file compiles against libtorch 1.13 and 2.x alike; where they differ, this module
// hides it.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

// "float" or "double" (also float32, fp32, float64, fp64); UserError names `what` otherwise.
at::ScalarType parse_dtype(std::string_view text, std::string_view what);
std::string dtype_name(at::ScalarType dtype);  // "float32", "float64"

// Sets the threads that libtorch's own kernels use when called from this thread (OpenMP keeps it
// per thread).
void set_compute_threads(int num_threads);
// Sets the BLAS library's threads for the whole process; false if the library does not offer it.
bool set_blas_threads(int num_threads);
// The BLAS that is loaded, in its own words, or "unknown BLAS"; also the CPU whose code it would
// have chosen by itself, where weft-engine chose another.
std::string blas_description();

}  // namespace weft
