// The shares of one sequence on ranks of unequal speed and memory: tokens in proportion to speed,
// but no more than a rank holds, so that all members that are not full end together.
#pragma once

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

struct UnevenShares {
  double tokens_per_speed = 0;  // of the members that are not full
  std::int64_t time = 0;        // of the slot, about
};

// REQUIRES: members by capacity / speed descending; they hold the sequence together; at most one
// per token.
UnevenShares uneven_shares(const CostModel& cost, Tokens tokens, std::span<const Member> members);

// Whole tokens for each member, at least 1, their sum the sequence's tokens.
std::vector<std::int64_t> whole_tokens(Tokens tokens, std::span<const Member> members,
                                       double tokens_per_speed);

}  // namespace weft
