#include "memory/saved_layer.h"

namespace weft {

std::array<at::Tensor*, SavedLayer::kNumTensors> SavedLayer::tensors() {
  return {&input,         &input_rstd, &q,           &k,    &v, &attention_out,
          &attention_lse, &middle,     &middle_rstd, &gate, &up};
}

Bytes SavedLayer::bytes() const {
  std::int64_t total = 0;
  for (const at::Tensor* tensor : SavedLayer(*this).tensors()) {
    if (tensor->defined()) total += static_cast<std::int64_t>(tensor->nbytes());
  }
  return Bytes(total);
}

}  // namespace weft
