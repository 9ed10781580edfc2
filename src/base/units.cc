#include "base/units.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace weft {
namespace {

int suffix_shift(char suffix) {
  switch (suffix) {
    case 'k':
    case 'K':
      return 10;
    case 'm':
    case 'M':
      return 20;
    case 'g':
    case 'G':
      return 30;
    case 't':
    case 'T':
      return 40;
    default:
      return -1;
  }
}

}  // namespace

std::int64_t parse_count(std::string_view text, std::string_view what) {
  std::int64_t count = 0;
  const char* end = text.data() + text.size();
  const auto [rest, status] = std::from_chars(text.data(), end, count);
  int shift = 0;
  if (status == std::errc() && end - rest == 1) shift = suffix_shift(*rest);
  const bool well_formed = status == std::errc() && count >= 0 && shift >= 0 && end - rest <= 1;
  WEFT_USER_CHECK(well_formed,
                  "{}: expected a count such as 4096, 4K, 16M or 2G (powers of 1024), got '{}'",
                  what, text);
  WEFT_USER_CHECK(count <= (std::numeric_limits<std::int64_t>::max() >> shift),
                  "{}: '{}' does not fit in 63 bits", what, text);
  return count << shift;
}

std::string format_count(std::int64_t count) {
  constexpr std::array<std::pair<int, char>, 4> kSuffixes = {
      {{40, 'T'}, {30, 'G'}, {20, 'M'}, {10, 'K'}}};
  for (const auto& [shift, suffix] : kSuffixes) {
    const std::int64_t unit = std::int64_t{1} << shift;
    if (count >= unit && count % unit == 0) return fmt::format("{}{}", count / unit, suffix);
  }
  return fmt::format("{}", count);
}

std::string format_bytes(Bytes bytes) {
  const double value = static_cast<double>(bytes.value());
  if (std::abs(value) >= 0x1p30) return fmt::format("{:.2f} GiB", value / 0x1p30);
  if (std::abs(value) >= 0x1p20) return fmt::format("{:.1f} MiB", value / 0x1p20);
  if (std::abs(value) >= 0x1p10) return fmt::format("{:.1f} KiB", value / 0x1p10);
  return fmt::format("{} B", bytes);
}

std::string format_duration(Nanoseconds duration) {
  const double value = static_cast<double>(duration.value());
  if (std::abs(value) >= 1e9) return fmt::format("{:.2f} s", value / 1e9);
  if (std::abs(value) >= 1e6) return fmt::format("{:.2f} ms", value / 1e6);
  if (std::abs(value) >= 1e3) return fmt::format("{:.2f} us", value / 1e3);
  return fmt::format("{} ns", duration);
}

}  // namespace weft
