// What a decoder layer's forward leaves for its backward, and where it waits in between.
//
// Only what is expensive to compute again is kept; norms and the feed-forward's product are
// elementwise and are computed again in backward. SavedLayers is the seam between a layer and the
// place where its tensors wait: put() once per layer in forward order, take() once per layer in
// backward order. Everything is kept in memory; a layer's tensors are freed when the value that
// take() returned goes away. Letters: T rows of the micro-batch, E hidden_size, H query heads, K
// key/value heads, D head_dim, F feed-forward size.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"
#include "tensor/tensor.h"

namespace weft {

struct SavedLayer {
  at::Tensor input;          // [T, E] residual stream before attention
  at::Tensor input_rstd;     // [T, 1] its reciprocal root mean square
  at::Tensor q;              // [T, H, D] rotated
  at::Tensor k;              // [T, K, D] rotated
  at::Tensor v;              // [T, K, D]
  at::Tensor attention_out;  // [T, H, D]
  at::Tensor attention_lse;  // [H, T]
  at::Tensor middle;         // [T, E] residual stream between attention and feed-forward
  at::Tensor middle_rstd;    // [T, 1]
  at::Tensor gate;           // [T, F] before SiLU
  at::Tensor up;             // [T, F]

  Bytes bytes() const;  // of all tensors together
};

class SavedLayers {
 public:
  explicit SavedLayers(std::int64_t num_layers);

  void put(std::int64_t layer, SavedLayer saved);  // InternalError if that layer is there already
  SavedLayer take(std::int64_t layer);             // InternalError if it is not there

 private:
  struct Place {
    bool full = false;
    SavedLayer saved;
  };
  std::vector<Place> places_;
};

}  // namespace weft
