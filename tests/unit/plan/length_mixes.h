// Length mixes with the token shares of ByteScale's Fig. 4 (as docs/planner.md lists them),
// log-uniform within each bucket. Every number is f(seed,
// index).
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"
#include "plan/planner.h"

namespace weft::testing {

// Percent of tokens in (X/2, X] for X = 2K, 4K, ..., 2M; the first bucket is (64, 2K].
using BucketShares = std::array<double, 11>;
inline constexpr BucketShares kGithubShares{34.0, 11.4, 10.4, 9.5, 8.8, 5.0,
                                            4.7,  6.4,  4.5,  2.8, 2.5};
inline constexpr BucketShares kBytedShares{7.6,  7.6, 7.6,  7.6,  7.6, 7.6,
                                           10.2, 7.3, 10.7, 14.2, 12.1};

// Sequences until their tokens reach `total`, none longer than max_context; ids in drawing order.
inline std::vector<SequenceSpec> draw_lengths(const BucketShares& shares, Tokens total,
                                              Tokens max_context, std::uint64_t seed) {
  std::array<double, 11> cumulative{};  // by number of sequences: share / mean length
  double sum = 0;
  for (std::size_t b = 0; b < shares.size(); ++b) {
    const double high = static_cast<double>(std::int64_t{2048} << b);
    const double low = b == 0 ? 64 : high / 2;
    if (high <= static_cast<double>(max_context.value()))
      sum += shares[b] / ((high - low) / std::log(high / low));
    cumulative[b] = sum;
  }
  const RandomStream random(seed, "length mix");
  std::vector<SequenceSpec> sequences;
  Tokens drawn;
  for (std::uint64_t i = 0; drawn < total; ++i) {
    const double u = random.uniform(2 * i) * sum;
    std::size_t b = 0;
    while (b + 1 < cumulative.size() && cumulative[b] <= u) ++b;
    const double high = static_cast<double>(std::int64_t{2048} << b);
    const double low = b == 0 ? 64 : high / 2;
    const auto tokens = static_cast<std::int64_t>(
                            low * std::exp(random.uniform(2 * i + 1) * std::log(high / low))) +
                        1;
    const Tokens fitting = std::min(Tokens(tokens), total - drawn);
    sequences.push_back({.id = static_cast<std::int64_t>(i),
                         .tokens = fitting,
                         .num_targets = fitting.value() - 1});
    drawn += fitting;
  }
  return sequences;
}

}  // namespace weft::testing
