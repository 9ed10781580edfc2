#include "memory/saved_layer.h"

#include <utility>

#include "base/error.h"

namespace weft {

Bytes SavedLayer::bytes() const {
  std::int64_t total = 0;
  for (const at::Tensor* tensor : {&input, &input_rstd, &q, &k, &v, &attention_out, &attention_lse,
                                   &middle, &middle_rstd, &gate, &up}) {
    if (tensor->defined()) total += static_cast<std::int64_t>(tensor->nbytes());
  }
  return Bytes(total);
}

SavedLayers::SavedLayers(std::int64_t num_layers) : places_(static_cast<std::size_t>(num_layers)) {}

void SavedLayers::put(std::int64_t layer, SavedLayer saved) {
  Place& place = places_.at(static_cast<std::size_t>(layer));
  WEFT_CHECK(!place.full, "layer {} is saved twice", layer);
  place = {.full = true, .saved = std::move(saved)};
}

SavedLayer SavedLayers::take(std::int64_t layer) {
  Place& place = places_.at(static_cast<std::size_t>(layer));
  WEFT_CHECK(place.full, "layer {} was not saved, or its tensors were taken already", layer);
  return std::exchange(place, Place{}).saved;
}

}  // namespace weft
