#include "sim/megatron_lengths.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>

#include "base/error.h"

namespace weft {
namespace {

constexpr double kMean = 1024;
constexpr double kSigma = 1.5;
constexpr double kShortest = 128;
constexpr double kLongest = 8192;
constexpr std::int64_t kSequencesPerRing = 8;

// NumPy's legacy generator, seed 0.
class LegacyNormals {
 public:
  double next() {
    if (second_) {
      const double value = *second_;
      second_.reset();
      return value;
    }
    double x = 0;
    double y = 0;
    double squares = 0;
    do {
      x = 2 * uniform() - 1;
      y = 2 * uniform() - 1;
      squares = x * x + y * y;
    } while (squares >= 1 || squares == 0);
    const double scale = std::sqrt(-2 * std::log(squares) / squares);
    second_ = scale * x;
    return scale * y;
  }

 private:
  // 27 bits of one draw and 26 of the next, in [0, 1).
  double uniform() {
    const std::uint64_t high = bits_() >> 5;
    const std::uint64_t low = bits_() >> 6;
    return static_cast<double>(high << 26 | low) * 0x1p-53;
  }

  std::mt19937 bits_{0};
  std::optional<double> second_;
};

}  // namespace

std::vector<std::int64_t> megatron_lengths(std::size_t count) {
  LegacyNormals normals;
  const double mu = std::log(kMean) - kSigma * kSigma / 2;
  std::vector<std::int64_t> lengths(count);
  for (std::int64_t& length : lengths)
    length = static_cast<std::int64_t>(
        std::clamp(std::exp(mu + kSigma * normals.next()), kShortest, kLongest));
  return lengths;
}

std::vector<SequenceSpec> megatron_sequences(std::int32_t num_ranks, std::int32_t ring,
                                             std::int64_t step) {
  WEFT_CHECK(ring > 0 && num_ranks % ring == 0, "{} ranks are no rings of {}", num_ranks, ring);
  const std::int64_t num_rings = num_ranks / ring;
  const std::int64_t count = kSequencesPerRing * num_rings;
  const std::vector<std::int64_t> lengths =
      megatron_lengths(static_cast<std::size_t>((step + 1) * count));
  const std::int64_t padding = 2 * ring;
  std::vector<SequenceSpec> sequences;
  for (std::int64_t r = 0; r < num_rings; ++r) {
    for (std::int64_t i = 0; i < kSequencesPerRing; ++i) {
      const std::int64_t length =
          lengths[static_cast<std::size_t>(step * count + i * num_rings + r)];
      const Tokens tokens((length + padding - 1) / padding * padding);
      sequences.push_back({.id = static_cast<std::int64_t>(sequences.size()),
                           .tokens = tokens,
                           .num_targets = tokens.value() - 1});
    }
  }
  return sequences;
}

}  // namespace weft
