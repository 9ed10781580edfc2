#include "memory/activation_store.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace weft {
namespace {

constexpr std::int64_t kResidentLayers = 2;  // the last ones: backward begins with them

}  // namespace

ActivationStore::ActivationStore(std::int64_t num_layers, const Offload& offload)
    : offload_(offload), places_(static_cast<std::size_t>(num_layers)) {
  WEFT_CHECK(offload.ratio >= 0 && offload.ratio <= 1, "an offload ratio of {}", offload.ratio);
  WEFT_CHECK(offload.ratio == 0 || offload.tier != nullptr, "an offload ratio of {} without a tier",
             offload.ratio);
}

bool ActivationStore::offloads(std::int64_t layer) const {
  return offload_.ratio > 0 && layer + kResidentLayers < static_cast<std::int64_t>(places_.size());
}

// Runs what may wait for the tier, and counts the time.
template <class Wait>
auto ActivationStore::waiting(const Wait& wait) {
  struct Timer {
    explicit Timer(OffloadMeasures* measures) : measures(measures) {}
    ~Timer() {
      if (measures != nullptr) measures->waited += std::chrono::steady_clock::now() - start;
    }
    OffloadMeasures* measures;
    std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  };
  const Timer timer(offload_.measures);
  return wait();
}

void ActivationStore::note_resident() {
  if (offload_.measures == nullptr) return;
  Bytes resident;
  for (const Place& place : places_)
    resident += place.out ? place.out->resident_bytes() : place.saved_bytes;
  offload_.measures->resident_peak = std::max(offload_.measures->resident_peak, resident);
}

void ActivationStore::put(std::int64_t layer, SavedLayer saved) {
  Place& place = places_.at(static_cast<std::size_t>(layer));
  WEFT_CHECK(!place.full, "layer {} is saved twice", layer);
  place.full = true;
  if (offloads(layer)) {
    place.out = std::make_unique<OffloadedLayer>(std::move(saved), offload_.ratio, *offload_.tier);
    if (offload_.measures != nullptr) offload_.measures->bytes += place.out->offloaded_bytes();
  } else {
    place.saved_bytes = saved.bytes();
    place.saved = std::move(saved);
  }
  note_resident();
  if (layer == 0) return;
  Place& before = places_[static_cast<std::size_t>(layer - 1)];
  if (before.out) waiting([&] { before.out->wait_written(); });
}

SavedLayer ActivationStore::take(std::int64_t layer) {
  Place& place = places_.at(static_cast<std::size_t>(layer));
  WEFT_CHECK(place.full, "layer {} was not saved, or its tensors were taken already", layer);
  place.full = false;
  SavedLayer saved = std::exchange(place.saved, SavedLayer());
  place.saved_bytes = 0_B;
  if (place.out) {
    saved = waiting([&] { return place.out->finish_fetch(); });
    place.out.reset();
  }
  if (layer == 0) return saved;
  Place& next = places_[static_cast<std::size_t>(layer - 1)];
  if (next.out && !next.out->is_fetching()) waiting([&] { next.out->start_fetch(); });
  note_resident();
  return saved;
}

}  // namespace weft
