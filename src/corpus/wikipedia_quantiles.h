// Quantiles of the token lengths of Wikipedia documents, made by tools/make_length_quantiles.py.
#pragma once

#include <cstdint>
#include <span>

namespace weft {

struct LengthQuantile {
  double share = 0;         // of the samples that are not longer, 0..1
  std::int64_t tokens = 0;  // the length at this share
};

// Ascending in both; the first share is 0, the last 1.
std::span<const LengthQuantile> wikipedia_quantiles();

}  // namespace weft
