// Texts of different lengths from every rank to every rank: for reasons of failure, names and other
// small things that ranks must agree on.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"

namespace weft {

// Result [N] in rank order, the same on every rank. Uses Channel::kControl, two exchanges.
std::vector<std::string> gather_texts(Communicator& comm, std::string_view mine,
                                      const OpLabel& label);

struct RankReason {
  Rank rank;
  std::string reason;
};

// The lowest rank whose `own_reason` is not empty, with its reason: the same answer on every rank,
// so that all of them go the same way after a step of work that may fail on some.
std::optional<RankReason> first_reason(Communicator& comm, std::string_view own_reason,
                                       const OpLabel& label);

}  // namespace weft
