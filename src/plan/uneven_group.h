// The cut of one sequence over ranks of unequal speed and memory.
//
// How many tokens a member holds and how much causal work it does are two choices: a token near the
// sequence's end has more earlier keys than one near its start. So members may be filled to their
// memory, which needs the fewest ranks, and still share the work by their speeds.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "cost/cost_model.h"
#include "plan/step_plan.h"

namespace weft {

struct Member {
  double speed = 1;
  std::int64_t capacity = 0;
};

struct UnevenCut {
  std::vector<std::array<TokenRange, 2>> ranges;  // of each member; the second one may be empty
  std::int64_t time = 0;                          // of the slot, as evaluate() has it
};

// The fastest of a few cuts. REQUIRES: members hold the sequence together; 2 to `tokens` of them.
UnevenCut cut_unevenly(const CostModel& cost, Tokens tokens, std::span<const Member> members);

// Ranges for given whole tokens (their sum the sequence's, each at least 1) and about the given
// work. Members in the order of `order`, each from both ends of what is left.
std::vector<std::array<TokenRange, 2>> ranges_for_work(std::span<const std::int64_t> tokens,
                                                       std::span<const double> work,
                                                       std::span<const std::uint32_t> order);

}  // namespace weft
