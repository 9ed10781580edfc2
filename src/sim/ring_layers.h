// A ring of ranks simulated layer by layer and hop by hop: what simulate_step aggregates.
//
// Member i computes one block of attention for each hop h = 0 .. D-1. It starts hop h when it has
// computed the block before and the block of this hop is there, and then sends that block on to
// member i + 1 while it computes with it. After its last block comes the rest of the layer, then
// the next layer. Nothing holds members together but the blocks they wait for.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"

namespace weft {

struct RingLayers {
  std::int32_t num_layers = 1;
  std::vector<Nanoseconds> block;  // [members]: one of a member's D blocks of attention
  std::vector<Nanoseconds> rest;   // [members]: what a layer computes besides
  std::vector<Nanoseconds> hop;    // [members]: a block's way from member i to member i + 1
};

// When each member has computed all layers. O(layers * members^2). REQUIRES: equal sizes, at
// least 1.
std::vector<Nanoseconds> ring_layers_time(const RingLayers& ring);

}  // namespace weft
