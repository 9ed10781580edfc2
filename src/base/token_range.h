// A half-open range of token positions inside one sequence. The only range type of Weft.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace weft {

struct TokenRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;  // exclusive

  constexpr std::int64_t size() const { return end - begin; }
  constexpr bool empty() const { return end <= begin; }
  constexpr bool contains(std::int64_t position) const {
    return begin <= position && position < end;
  }
  friend constexpr auto operator<=>(const TokenRange&, const TokenRange&) = default;
};

constexpr bool overlaps(TokenRange a, TokenRange b) {
  return std::max(a.begin, b.begin) < std::min(a.end, b.end);
}

// Number of (query, key) pairs that causal attention computes for the queries of `range` when every
// earlier position of the sequence is a key: sum of (p + 1) for p in range. Exact below 2^32
// tokens.
constexpr std::int64_t causal_work(TokenRange range) {
  if (range.empty()) return 0;
  const std::int64_t terms = range.size();
  const std::int64_t ends = range.begin + 1 + range.end;
  return terms % 2 == 0 ? (terms / 2) * ends : terms * (ends / 2);
}

}  // namespace weft

template <>
struct fmt::formatter<weft::TokenRange> : fmt::formatter<std::string_view> {
  template <class Context>
  auto format(weft::TokenRange range, Context& context) const {
    return fmt::format_to(context.out(), "[{}, {})", range.begin, range.end);
  }
};
