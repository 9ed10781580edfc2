// Which of its kernels OpenBLAS runs. It chooses by the CPU's family and model, so a release that
// is older than the CPU takes the oldest code it has: 0.3.21 (Debian 12) runs Prescott's on
// Sapphire and Emerald Rapids, at a fifth of the speed. OPENBLAS_CORETYPE, read when it is loaded,
// overrules it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "machine/fma_kernel.h"

namespace weft {

// openblas_get_corename() of the BLAS in this process; empty for another one.
std::string loaded_blas_core();

// OpenBLAS names CPUs; of x86's these have code for AVX-512.
bool has_avx512_code(std::string_view core);

// The OPENBLAS_CORETYPE that suits a CPU with AVX2 or more on which it chose code from before AVX2;
// nullopt where its choice is no such mistake.
std::optional<std::string> fitting_blas_core(std::string_view core, const SimdLevel& simd);

// Starts this program again, in its place, with that OPENBLAS_CORETYPE where the BLAS in this
// process needs it and the variable is not set; else returns. tensor/tensor.h's blas_description()
// then names both choices. First thing in main().
void start_again_with_fitting_blas(char** argv);

}  // namespace weft
