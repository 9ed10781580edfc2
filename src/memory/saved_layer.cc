#include "memory/saved_layer.h"

namespace weft {

std::array<at::Tensor*, SavedLayer::kNumTensors> SavedLayer::tensors() {
  return {&input,         &input_rstd, &q,           &k,    &v, &attention_out,
          &attention_lse, &middle,     &middle_rstd, &gate, &up};
}

Bytes SavedLayer::bytes() const {
  SavedLayer same = *this;  // handles; a temporary in the loop's head would be gone in its body
  std::int64_t total = 0;
  for (const at::Tensor* tensor : same.tensors()) {
    if (tensor->defined()) total += static_cast<std::int64_t>(tensor->nbytes());
  }
  return Bytes(total);
}

}  // namespace weft
