// Quantities that must not mix are types: adding Tokens to Bytes does not compile.
//
// Every quantity is a signed 64-bit integer (a 16,384-rank step of 2M-token sequences stays far
// below 2^63). Parsing accepts 4096, 4K, 16M, 2G (powers of 1024, as contexts are named) and
// rejects anything else.
#pragma once

#include <fmt/format.h>

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

template <class Tag>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(std::int64_t value) : value_(value) {}
  constexpr std::int64_t value() const { return value_; }

  constexpr Quantity& operator+=(Quantity other) {
    value_ += other.value_;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    value_ -= other.value_;
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) {
    return Quantity(a.value_ + b.value_);
  }
  friend constexpr Quantity operator-(Quantity a, Quantity b) {
    return Quantity(a.value_ - b.value_);
  }
  friend constexpr Quantity operator*(Quantity a, std::int64_t n) { return Quantity(a.value_ * n); }
  friend constexpr Quantity operator*(std::int64_t n, Quantity a) { return Quantity(a.value_ * n); }
  friend constexpr Quantity operator/(Quantity a, std::int64_t n) { return Quantity(a.value_ / n); }
  // How often b fits into a, as a real number.
  friend constexpr double ratio(Quantity a, Quantity b) {
    return static_cast<double>(a.value_) / static_cast<double>(b.value_);
  }
  friend constexpr auto operator<=>(Quantity, Quantity) = default;

 private:
  std::int64_t value_ = 0;
};

using Tokens = Quantity<struct TokensTag>;
using Bytes = Quantity<struct BytesTag>;
using Flops = Quantity<struct FlopsTag>;
using Nanoseconds = Quantity<struct NanosecondsTag>;

// Position of a process or thread on the HDP axis, 0 <= value < N.
class Rank {
 public:
  constexpr Rank() = default;
  constexpr explicit Rank(std::int64_t value) : value_(static_cast<std::int32_t>(value)) {}
  constexpr std::int32_t value() const { return value_; }
  friend constexpr auto operator<=>(Rank, Rank) = default;

 private:
  std::int32_t value_ = 0;
};

inline constexpr double seconds(Nanoseconds t) { return static_cast<double>(t.value()) * 1e-9; }

inline namespace literals {
constexpr Tokens operator""_tok(unsigned long long n) {
  return Tokens(static_cast<std::int64_t>(n));
}
constexpr Bytes operator""_B(unsigned long long n) { return Bytes(static_cast<std::int64_t>(n)); }
constexpr Bytes operator""_KiB(unsigned long long n) {
  return Bytes(static_cast<std::int64_t>(n) << 10);
}
constexpr Bytes operator""_MiB(unsigned long long n) {
  return Bytes(static_cast<std::int64_t>(n) << 20);
}
constexpr Nanoseconds operator""_ns(unsigned long long n) {
  return Nanoseconds(static_cast<std::int64_t>(n));
}
constexpr Nanoseconds operator""_us(unsigned long long n) {
  return Nanoseconds(static_cast<std::int64_t>(n) * 1'000);
}
constexpr Nanoseconds operator""_ms(unsigned long long n) {
  return Nanoseconds(static_cast<std::int64_t>(n) * 1'000'000);
}
}  // namespace literals

// "4096", "4K", "16M", "2G" (1024-based) -> count. `what` names the value in the UserError.
std::int64_t parse_count(std::string_view text, std::string_view what);

// 4096 -> "4K", 5000 -> "5000": the shortest text that parse_count reads back exactly.
std::string format_count(std::int64_t count);
// For people, not exact: "1.50 GiB", "12.3 ms".
std::string format_bytes(Bytes bytes);
std::string format_duration(Nanoseconds duration);

}  // namespace weft

template <class Tag>
struct fmt::formatter<weft::Quantity<Tag>> : fmt::formatter<std::int64_t> {
  template <class Context>
  auto format(weft::Quantity<Tag> quantity, Context& context) const {
    return fmt::formatter<std::int64_t>::format(quantity.value(), context);
  }
};

template <>
struct fmt::formatter<weft::Rank> : fmt::formatter<std::int32_t> {
  template <class Context>
  auto format(weft::Rank rank, Context& context) const {
    return fmt::formatter<std::int32_t>::format(rank.value(), context);
  }
};
