#include "base/random.h"

#include <array>
#include <bit>
#include <cmath>
#include <span>

#include "base/checksum.h"
#include "base/error.h"

namespace weft {
namespace {

// Finaliser of the SplitMix64 generator (Steele, Lea, Flood 2014).
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

double polynomial(double x, std::span<const double> coefficients) {
  double sum = 0;
  for (const double c : coefficients) sum = sum * x + c;
  return sum;
}

// Acklam's rational approximation of the inverse normal CDF, relative error below 1.15e-9; 0 < p
// < 1.
double inverse_normal_cdf(double p) {
  constexpr std::array<double, 6> kCentralTop = {-3.969683028665376e+01, 2.209460984245205e+02,
                                                 -2.759285104469687e+02, 1.383577518672690e+02,
                                                 -3.066479806614716e+01, 2.506628277459239e+00};
  constexpr std::array<double, 6> kCentralBottom = {-5.447609879822406e+01, 1.615858368580409e+02,
                                                    -1.556989798598866e+02, 6.680131188771972e+01,
                                                    -1.328068155288572e+01, 1.0};
  constexpr std::array<double, 6> kTailTop = {-7.784894002430293e-03, -3.223964580411365e-01,
                                              -2.400758277161838e+00, -2.549732539343734e+00,
                                              4.374664141464968e+00,  2.938163982698783e+00};
  constexpr std::array<double, 5> kTailBottom = {7.784695709041462e-03, 3.224671290700398e-01,
                                                 2.445134137142996e+00, 3.754408661907416e+00, 1.0};
  constexpr double kTail = 0.02425;
  if (p < kTail) {
    const double q = std::sqrt(-2 * std::log(p));
    return polynomial(q, kTailTop) / polynomial(q, kTailBottom);
  }
  if (p > 1 - kTail) return -inverse_normal_cdf(1 - p);
  const double q = p - 0.5;
  return q * polynomial(q * q, kCentralTop) / polynomial(q * q, kCentralBottom);
}

}  // namespace

RandomStream::RandomStream(std::uint64_t seed, std::string_view purpose)
    : key_(mix(seed + 0x9e3779b97f4a7c15ULL) ^
           checksum64(purpose)) {}

std::uint64_t RandomStream::bits(std::uint64_t index) const {
  return mix(key_ + mix(index + 0x9e3779b97f4a7c15ULL));
}

double RandomStream::uniform(std::uint64_t index) const {
  return static_cast<double>(bits(index) >> 11) * 0x1p-53;
}

std::uint64_t RandomStream::below(std::uint64_t index, std::uint64_t bound) const {
  using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>(bits(index)) * bound) >> 64);
}

double RandomStream::normal(std::uint64_t index) const {
  // The middle of one of 2^53 equal cells: never 0 or 1.
  return inverse_normal_cdf((static_cast<double>(bits(index) >> 12) + 0.5) * 0x1p-52);
}

Permutation::Permutation(std::uint64_t seed, std::string_view purpose, std::uint64_t size)
    : round_(seed, purpose),
      size_(size),
      half_bits_((std::bit_width(size > 1 ? size - 1 : 1) + 1) / 2) {}

std::uint64_t Permutation::operator()(std::uint64_t index) const {
  WEFT_CHECK(index < size_, "permutation of {} elements asked for element {}", size_, index);
  constexpr int kRounds = 6;
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t value = index;
  do {
    std::uint64_t left = value >> half_bits_;
    std::uint64_t right = value & mask;
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      const std::uint64_t next = left ^ (round_.bits((round << 56) ^ right) & mask);
      left = right;
      right = next;
    }
    value = (left << half_bits_) | right;
  } while (value >=
           size_);  // cycle walking: the network permutes 2^(2*half_bits) < 4 * size values
  return value;
}

}  // namespace weft
