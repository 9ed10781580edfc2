// LengthHistogram: how many samples, and how many tokens, lie in each power-of-two bucket of
// lengths.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/units.h"
#include "corpus/corpus.h"

namespace weft {

struct LengthBucket {
  std::int64_t num_samples = 0;
  Tokens tokens;
  friend bool operator==(const LengthBucket&, const LengthBucket&) = default;
};

class LengthHistogram {
 public:
  void add(Tokens length);  // >= 1

  // Bucket k holds the lengths in [2^k, 2^(k+1)); the last one is not empty.
  std::span<const LengthBucket> buckets() const { return buckets_; }
  std::int64_t num_samples() const { return total_.num_samples; }
  Tokens num_tokens() const { return total_.tokens; }

 private:
  std::vector<LengthBucket> buckets_;
  LengthBucket total_;
};

LengthHistogram document_lengths(const Corpus& corpus);

// The exact lengths at the given shares of the samples, nearest rank: {0.5, 1.0} -> median and
// longest. Takes 8 bytes per document while it runs. REQUIRES: 0 <= share <= 1.
std::vector<Tokens> length_quantiles(const Corpus& corpus, std::span<const double> shares);

// A table of the buckets from the first to the last that is not empty, one line each. Its bars show
// samples and tokens in proportion to the fullest bucket; what is not zero shows. `columns`: width
// of the terminal, at least 80.
std::string format_histogram(const LengthHistogram& histogram, int columns);

}  // namespace weft
