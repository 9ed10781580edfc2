#include "plan/sequence_time.h"

#include <array>

#include "cost/micro_batch_time.h"

namespace weft {

std::int32_t smallest_degree(Tokens tokens, Tokens capacity) {
  return static_cast<std::int32_t>(ranks_needed(tokens, capacity));
}

Nanoseconds sequence_time(const CostModel& cost, Tokens tokens, std::int32_t degree, double speed) {
  const Tokens largest((tokens.value() + degree - 1) / degree);
  const std::array<RingShare, 1> share{{{.work = causal_work({0, tokens.value()}) / degree,
                                         .tokens = largest,
                                         .degree = degree,
                                         .largest_member = largest}}};
  return micro_batch_time(cost, share, speed);
}

Nanoseconds sequence_time(const GroupCosts& costs, Tokens tokens, std::int32_t degree,
                          double speed) {
  return sequence_time(costs.at_best(degree), tokens, degree, speed);
}

namespace {

// `costs`: a CostModel or GroupCosts.
std::int32_t find_degree(const auto& costs, Tokens tokens, std::int32_t least, std::int32_t most,
                         Nanoseconds limit) {
  std::int32_t fastest = least;
  Nanoseconds fastest_time = sequence_time(costs, tokens, least, 1.0);
  for (std::int32_t degree = least; degree <= most; ++degree) {
    const Nanoseconds time = sequence_time(costs, tokens, degree, 1.0);
    if (time <= limit) return degree;
    if (time < fastest_time) {
      fastest_time = time;
      fastest = degree;
    }
  }
  return fastest;
}

}  // namespace

std::int32_t degree_within(const CostModel& cost, Tokens tokens, std::int32_t least,
                           std::int32_t most, Nanoseconds limit) {
  return find_degree(cost, tokens, least, most, limit);
}

std::int32_t degree_within(const GroupCosts& costs, Tokens tokens, std::int32_t least,
                           std::int32_t most, Nanoseconds limit) {
  return find_degree(costs, tokens, least, most, limit);
}

}  // namespace weft
