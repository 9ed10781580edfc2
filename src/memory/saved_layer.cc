#include "memory/saved_layer.h"

namespace weft {
namespace {

// Of a layer that may be changed, or not.
template <class Tensor, class Layer>
std::array<Tensor*, SavedLayer::kNumTensors> tensors_of(Layer& layer) {
  return {&layer.input,         &layer.input_rstd, &layer.qkv,         &layer.attention_out,
          &layer.attention_lse, &layer.middle,     &layer.middle_rstd, &layer.gate_up};
}

}  // namespace

std::array<at::Tensor*, SavedLayer::kNumTensors> SavedLayer::tensors() {
  return tensors_of<at::Tensor>(*this);
}

Bytes SavedLayer::bytes() const {
  std::int64_t total = 0;
  for (const at::Tensor* tensor : tensors_of<const at::Tensor>(*this)) {
    if (tensor->defined()) total += static_cast<std::int64_t>(tensor->nbytes());
  }
  return Bytes(total);
}

}  // namespace weft
