// Ring hops between two ranks, timed: the part of a profile that measures links.
#pragma once

#include <vector>

#include "comm/communicator.h"
#include "cost/cost_fit.h"

namespace weft {

// Ranks 0 and 1 exchange K and V of `capacity` tokens and of smaller numbers, both ways at once as
// in a ring: the mean time alone, in runs that send as much for every number, and what is left of
// it beside compute that lasts longer, 0 up to the time alone (the copies, and a transport that
// moves nothing unless it is called; 0 for virtual links, which take none of a rank's time).
// Collective over all ranks, at least two; empty on the others.
std::vector<HopSample> time_hops(Communicator& comm, Tokens capacity, double kv_bytes_per_token);

}  // namespace weft
