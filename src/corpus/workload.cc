#include "corpus/workload.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/error.h"
#include "base/random.h"
#include "corpus/wikipedia_quantiles.h"

namespace weft {
namespace {

constexpr std::size_t kNumBuckets = 11;
constexpr double kShortestInFirstBucket = 64;
constexpr double kFirstBucketEnd = 2048;
constexpr double kLn2 = 0.693147180559945309417232121458;
// A workload of which fewer draws than this share fit its context is refused.
constexpr std::uint64_t kMostRedraws = 100'000;

// 2^x for x in [-1000, 1000]: sqrt is rounded alike everywhere, std::exp2 is not.
class PowersOfTwo {
 public:
  PowersOfTwo() {
    double root = 2;
    for (double& power : roots_) power = root = std::sqrt(root);
  }
  double operator()(double x) const {
    const double whole = std::floor(x);
    auto fraction = static_cast<std::uint64_t>((x - whole) * 0x1p40);
    double power = std::ldexp(1.0, static_cast<int>(whole));
    for (std::size_t bit = 0; bit < roots_.size(); ++bit) {
      if ((fraction >> (roots_.size() - 1 - bit) & 1) != 0) power *= roots_[bit];
    }
    return power;
  }

 private:
  std::array<double, 40> roots_{};  // 2^(1/2), 2^(1/4), ...
};

double log2_of(double x) {
  int exponent = 0;
  double mantissa = 2 * std::frexp(x, &exponent);  // [1, 2)
  double log2 = exponent - 1;
  double weight = 1;
  for (int bit = 0; bit < 52; ++bit) {
    mantissa *= mantissa;
    weight /= 2;
    if (mantissa < 2) continue;
    mantissa /= 2;
    log2 += weight;
  }
  return log2;
}

double bucket_begin(std::size_t bucket) {
  return bucket == 0 ? kShortestInFirstBucket
                     : std::ldexp(kFirstBucketEnd, static_cast<int>(bucket) - 1);
}
double bucket_end(std::size_t bucket) {
  return std::ldexp(kFirstBucketEnd, static_cast<int>(bucket));
}

// One length for two uniform numbers (and a normal one).
class LengthDraw {
 public:
  LengthDraw(const Workload& workload, std::uint64_t seed)
      : workload_(workload), random_(seed, "workload " + workload.name) {
    if (const auto* buckets = std::get_if<BucketLengths>(&workload.lengths)) {
      prepare(*buckets);
    } else if (const auto* normal = std::get_if<LogNormalLengths>(&workload.lengths)) {
      mu_ = log2_of(normal->mean) - normal->sigma * normal->sigma / 2 / kLn2;
    }
  }

  std::int64_t operator()(std::uint64_t index) const {
    return std::visit([&](const auto& lengths) { return draw(lengths, index); }, workload_.lengths);
  }

 private:
  void prepare(const BucketLengths& lengths) {
    double sum = 0;
    for (std::size_t b = 0; b < kNumBuckets; ++b) {
      const double begin = bucket_begin(b);
      const double end = bucket_end(b);
      octaves_[b] = log2_of(end / begin);
      const double mean = (end - begin) / (octaves_[b] * kLn2);
      // No draw of a bucket that begins at the cap can fit.
      if (begin < static_cast<double>(workload_.context.value()))
        sum += lengths.token_percent[b] / mean;
      samples_[b] = sum;
    }
  }

  std::int64_t draw(const BucketLengths&, std::uint64_t index) const {
    const double u = random_.uniform(2 * index) * samples_.back();
    std::size_t b = 0;
    while (b + 1 < kNumBuckets && samples_[b] <= u) ++b;
    const double tokens = bucket_begin(b) * power_(random_.uniform(2 * index + 1) * octaves_[b]);
    return static_cast<std::int64_t>(tokens) + 1;
  }

  std::int64_t draw(const WikipediaLengths&, std::uint64_t index) const {
    const auto table = wikipedia_quantiles();
    const double u = random_.uniform(2 * index);
    const auto above = std::upper_bound(
        table.begin() + 1, table.end() - 1, u,
        [](double share, const LengthQuantile& knot) { return share < knot.share; });
    const auto below = above - 1;
    const double along = (u - below->share) / (above->share - below->share);
    return below->tokens + static_cast<std::int64_t>(
                               along * static_cast<double>(above->tokens - below->tokens) + 0.5);
  }

  std::int64_t draw(const LogNormalLengths& lengths, std::uint64_t index) const {
    const double log2 = mu_ + lengths.sigma / kLn2 * random_.normal(2 * index);
    const double tokens = power_(std::clamp(log2, -1.0, 60.0));
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(tokens + 0.5));
  }

  std::int64_t draw(const ListedLengths& lengths, std::uint64_t index) const {
    return lengths.tokens[random_.below(2 * index, lengths.tokens.size())];
  }

  const Workload& workload_;
  RandomStream random_;
  PowersOfTwo power_;
  std::array<double, kNumBuckets> octaves_{};
  std::array<double, kNumBuckets> samples_{};  // cumulative number of sequences, not normalised
  double mu_ = 0;                              // mean of log2 of the length
};

Tokens longest_allowed(const Workload& workload) {
  const auto* normal = std::get_if<LogNormalLengths>(&workload.lengths);
  return normal == nullptr ? workload.context : std::min(workload.context, normal->max);
}

}  // namespace

Workload byted_workload(Tokens context) {
  // The text and the figure fix all but two shares; docs/planner.md says which.
  return {.name = "byted",
          .lengths = BucketLengths{{7.6, 7.6, 7.6, 7.6, 7.6, 7.6, 10.2, 7.3, 10.7, 14.2, 12.1}},
          .context = context};
}

Workload github_workload(Tokens context) {
  return {.name = "github",
          .lengths = BucketLengths{{34.0, 11.4, 10.4, 9.5, 8.8, 5.0, 4.7, 6.4, 4.5, 2.8, 2.5}},
          .context = context};
}

Workload wikipedia_workload(Tokens context) {
  return {.name = "wikipedia", .lengths = WikipediaLengths{}, .context = context};
}

std::vector<std::int64_t> draw_lengths(const Workload& workload, Tokens batch_tokens,
                                       std::uint64_t seed, std::int64_t batch) {
  WEFT_USER_CHECK(batch_tokens >= Tokens(1),
                  "workload '{}': a batch of {} tokens; expected 1 or more", workload.name,
                  batch_tokens);
  WEFT_USER_CHECK(workload.context >= Tokens(1),
                  "workload '{}': a context of {} tokens; expected 1 or more", workload.name,
                  workload.context);
  const LengthDraw draw(workload, seed);
  const std::int64_t longest = longest_allowed(workload).value();
  std::vector<std::int64_t> lengths;
  std::int64_t left = batch_tokens.value();
  std::uint64_t redraws = 0;  // since the last length that fitted
  for (auto index = static_cast<std::uint64_t>(batch) << 36; left > 0; ++index) {
    const std::int64_t tokens = draw(index);
    if (tokens > longest) {
      WEFT_USER_CHECK(
          ++redraws < kMostRedraws,
          "workload '{}': {} draws in a row are longer than {} tokens; raise the context",
          workload.name, kMostRedraws, longest);
      continue;
    }
    redraws = 0;
    lengths.push_back(std::min(tokens, left));
    left -= lengths.back();
  }
  return lengths;
}

}  // namespace weft
