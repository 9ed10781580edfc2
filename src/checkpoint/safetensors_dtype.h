// The dtypes of the safetensors format beside libtorch's.
#pragma once

#include <string_view>

#include "tensor/tensor.h"

namespace weft {

// "F32" <-> at::kFloat. UserError names the dtype and `where`: unknown ones, and known ones that
// libtorch lacks.
at::ScalarType safetensors_scalar_type(std::string_view dtype, std::string_view where);
std::string_view safetensors_dtype(
    at::ScalarType type);  // InternalError for a type the format does not have

}  // namespace weft
