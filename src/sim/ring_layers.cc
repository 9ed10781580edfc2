#include "sim/ring_layers.h"

#include <algorithm>

#include "base/error.h"

namespace weft {

std::vector<Nanoseconds> ring_layers_time(const RingLayers& ring) {
  const std::size_t degree = ring.block.size();
  WEFT_CHECK(degree >= 1 && ring.rest.size() == degree && ring.hop.size() == degree,
             "{} blocks, {} rests, {} hops", degree, ring.rest.size(), ring.hop.size());
  std::vector<Nanoseconds> done(degree);       // of the layer before
  std::vector<Nanoseconds> start(degree);      // of the present hop
  std::vector<Nanoseconds> link_free(degree);  // from member i to i + 1
  std::vector<Nanoseconds> arrival(degree);    // of the next hop's block
  for (std::int32_t layer = 0; layer < ring.num_layers; ++layer) {
    start = done;
    for (std::size_t hop = 0; hop + 1 < degree; ++hop) {
      for (std::size_t i = 0; i < degree; ++i) {
        link_free[i] = std::max(link_free[i], start[i]) + ring.hop[i];
        arrival[(i + 1) % degree] = link_free[i];
      }
      for (std::size_t i = 0; i < degree; ++i)
        start[i] = std::max(start[i] + ring.block[i], arrival[i]);
    }
    for (std::size_t i = 0; i < degree; ++i) done[i] = start[i] + ring.block[i] + ring.rest[i];
  }
  return done;
}

}  // namespace weft
