#include "tensor/tensor.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>

#include <cstdlib>

#include "base/error.h"

namespace weft {
namespace {

// OpenBLAS is found at run time: the alternatives system decides which BLAS a program gets.
template <class Function>
Function find_symbol(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, name));
}

}  // namespace

at::ScalarType parse_dtype(std::string_view text, std::string_view what) {
  if (text == "float" || text == "float32" || text == "fp32") return at::kFloat;
  if (text == "double" || text == "float64" || text == "fp64") return at::kDouble;
  throw_user_error("{}: expected float32 or float64, got '{}'", what, text);
}

std::string dtype_name(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return "float32";
    case at::kDouble:
      return "float64";
    default:
      return c10::toString(dtype);
  }
}

void set_compute_threads(int num_threads) { at::set_num_threads(num_threads); }

bool set_blas_threads(int num_threads) {
  const auto set = find_symbol<void (*)(int)>("openblas_set_num_threads");
  if (set == nullptr) return false;
  set(num_threads);
  return true;
}

std::string blas_description() {
  const auto config = find_symbol<const char* (*)()>("openblas_get_config");
  if (config == nullptr) return "unknown BLAS";
  const char* own = std::getenv("WEFT_BLAS_OWN_CORE");  // machine/blas_choice.h
  return own == nullptr ? config() : fmt::format("{} (its own choice: {})", config(), own);
}

}  // namespace weft
