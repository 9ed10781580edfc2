// ActivationStore: where the layers of one micro-batch wait between forward and backward, in memory
// or, a share r of all but the last two, in a slower tier (ByteScale section 5.2, Eq. 3; design
// section 3 "Offload").
//
// put() once per layer in forward order, take() once per layer in backward order; a layer's tensors
// are freed when the value that take() returned goes away. A layer goes out while the next one
// computes, and comes back while the one above it runs backward. Never more than two layers are
// whole in memory besides what stays of the others, so a micro-batch holds what
// `tokens * (min(2, l) + (1 - r) * max(l - 2, 0)) / l` says: put() waits until the layer before has
// gone out. An error of the tier comes out of the next put() or take(), before anyone could use
// what it concerns.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/units.h"
#include "memory/offloaded_layer.h"

namespace weft {

// What offload did, added up over stores.
struct OffloadMeasures {
  Bytes bytes;                        // written to the tier; as many are read back
  std::chrono::nanoseconds waited{};  // of put() and take(), for copies that nothing hid
  Bytes resident_peak;                // of what one store held at most, copies under way included
};

// How one micro-batch offloads. With a ratio of 0 there need not be a tier.
struct Offload {
  OffloadTier* tier = nullptr;          // outlives the store
  double ratio = 0;                     // r in [0, 1]
  OffloadMeasures* measures = nullptr;  // outlives the store; may be null
};

// Belongs to one thread. It may be destroyed at any time: copies under way end first.
class ActivationStore {
 public:
  explicit ActivationStore(std::int64_t num_layers, const Offload& offload = {});

  void put(std::int64_t layer, SavedLayer saved);  // InternalError if that layer is there already
  SavedLayer take(std::int64_t layer);             // InternalError if it is not there

 private:
  struct Place {
    bool full = false;
    SavedLayer saved;  // when nothing of it goes out
    Bytes saved_bytes;
    std::unique_ptr<OffloadedLayer> out;  // else
  };

  bool offloads(std::int64_t layer) const;
  template <class Wait>
  auto waiting(const Wait& wait);
  void note_resident();

  Offload offload_;
  std::vector<Place> places_;
};

}  // namespace weft
