// Workload: a distribution of sequence lengths as a value, from which the steps of a run are drawn.
//
// Every length is f(seed, batch, index) (base/random.h), computed without libm beyond sqrt apart
// from the tails of the log-normal, so the same workload and seed give the same lengths on every
// machine. Lengths above the context cap are drawn again, not cut: what remains is the distribution
// given that it fits. A batch holds exactly the tokens asked for: its last sequence is cut to fit.
// ByteScale section 1 (Fig. 4) has the token shares of "byted" and "github".
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/units.h"

namespace weft {

// Percent of all tokens that lie in sequences of (X/2, X] tokens for X = 2K, 4K, ..., 2M (the first
// bucket is (64, 2K]); log-uniform within a bucket.
struct BucketLengths {
  std::array<double, 11> token_percent{};
  friend bool operator==(const BucketLengths&, const BucketLengths&) = default;
};

// The quantile table of the Wikipedia lengths, linear between knots.
struct WikipediaLengths {
  friend bool operator==(const WikipediaLengths&, const WikipediaLengths&) = default;
};

// exp of a normal variable; `mean` is the mean length before anything is drawn again.
struct LogNormalLengths {
  double mean = 1024;
  double sigma = 1;  // of the logarithm
  Tokens max{1 << 20};
  friend bool operator==(const LogNormalLengths&, const LogNormalLengths&) = default;
};

// Drawn with replacement.
struct ListedLengths {
  std::vector<std::int64_t> tokens;
  friend bool operator==(const ListedLengths&, const ListedLengths&) = default;
};

struct Workload {
  std::string name;
  std::variant<BucketLengths, WikipediaLengths, LogNormalLengths, ListedLengths> lengths;
  Tokens context;  // longest sequence
  friend bool operator==(const Workload&, const Workload&) = default;
};

Workload byted_workload(Tokens context);
Workload github_workload(Tokens context);
Workload wikipedia_workload(Tokens context);

// "byted", "github", "wikipedia", "lognormal:MEAN,SIGMA,MAX", or a path: a file with one length a
// line, a .jsonl file whose records have "tokens" or "length", or a corpus folder (its documents).
// UserError for an unknown name, with the nearest one.
Workload parse_workload(const std::string& text, Tokens context);

// One integer a line; blank lines and "# ..." do not count. UserError with file and line.
std::vector<std::int64_t> read_lengths_file(const std::filesystem::path& path);

// Lengths of step `batch`, in drawing order: their sum is batch_tokens. UserError when (nearly) no
// length of the workload is within its context.
std::vector<std::int64_t> draw_lengths(const Workload& workload, Tokens batch_tokens,
                                       std::uint64_t seed, std::int64_t batch);

}  // namespace weft
