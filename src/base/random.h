// Random numbers without state: every number is f(seed, purpose, index), so nothing has to be saved
// to resume and any rank can compute any of them. No std:: distributions (their results differ
// between libraries).
#pragma once

#include <cstdint>
#include <string_view>

namespace weft {

// 64 well-mixed bits of (seed, purpose, index). `purpose` is a name such as "data order" or a
// parameter's name.
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::string_view purpose);

  std::uint64_t bits(std::uint64_t index) const;
  double uniform(std::uint64_t index) const;  // [0, 1), 53 bits
  std::uint64_t below(std::uint64_t index,
                      std::uint64_t bound) const;  // [0, bound), bound >= 1, bias < 2^-64 * bound
  double normal(std::uint64_t index) const;  // mean 0, variance 1, by the inverse of the normal CDF

 private:
  std::uint64_t key_;
};

// A permutation of [0, size) computed element by element (a Feistel network with cycle walking),
// never stored.
class Permutation {
 public:
  Permutation(std::uint64_t seed, std::string_view purpose, std::uint64_t size);

  std::uint64_t size() const { return size_; }
  std::uint64_t operator()(std::uint64_t index) const;  // index < size

 private:
  RandomStream round_;
  std::uint64_t size_;
  int half_bits_;
};

}  // namespace weft
