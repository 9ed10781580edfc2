#include "checkpoint/safetensors_dtype.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "checkpoint/safetensors_header.h"

namespace weft {
namespace {

struct TorchDtype {
  std::string_view name;
  at::ScalarType type;
};

constexpr std::array<TorchDtype, 10> kTorchDtypes = {{
    {"F64", at::kDouble},
    {"I64", at::kLong},
    {"F32", at::kFloat},
    {"I32", at::kInt},
    {"F16", at::kHalf},
    {"BF16", at::kBFloat16},
    {"I16", at::kShort},
    {"I8", at::kChar},
    {"U8", at::kByte},
    {"BOOL", at::kBool},
}};

}  // namespace

at::ScalarType safetensors_scalar_type(std::string_view dtype, std::string_view where) {
  safetensors_element_bytes(dtype, where);  // refuses what the format does not have
  const auto* row = std::ranges::find(kTorchDtypes, dtype, &TorchDtype::name);
  WEFT_USER_CHECK(row != kTorchDtypes.end(),
                  "{}: dtype {} is valid, but libtorch has no tensor of it; convert the file",
                  where, dtype);
  return row->type;
}

std::string_view safetensors_dtype(at::ScalarType type) {
  const auto* row = std::ranges::find(kTorchDtypes, type, &TorchDtype::type);
  WEFT_CHECK(row != kTorchDtypes.end(), "safetensors has no dtype for {}", c10::toString(type));
  return row->name;
}

}  // namespace weft
