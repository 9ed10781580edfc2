#include "cli/link_options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>
#include <string_view>

#include "base/error.h"

namespace weft {
namespace {

// "20us" is 20 and "us". Without a number in front: NaN.
struct NumberWithUnit {
  explicit NumberWithUnit(std::string_view text) {
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc()) value = std::numeric_limits<double>::quiet_NaN();
    unit = {rest, static_cast<std::size_t>(end - rest)};
  }
  double value = 0;
  std::string_view unit;
};

struct Unit {
  std::string_view name;
  double factor;
};
constexpr std::array<Unit, 4> kBandwidthUnits = {{{"", 1}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}}};
constexpr std::array<Unit, 4> kTimeUnits = {{{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}};

// 0: no such unit.
double factor_of(std::span<const Unit> units, std::string_view name) {
  const auto found = std::find_if(units.begin(), units.end(),
                                  [name](const Unit& unit) { return unit.name == name; });
  return found == units.end() ? 0 : found->factor;
}

// "10G", "2.5e9": bytes per second.
double parse_bandwidth(const std::string& text) {
  if (text.empty()) return VirtualLink{}.bytes_per_second;
  const NumberWithUnit parsed(text);
  const double bandwidth = parsed.value * factor_of(kBandwidthUnits, parsed.unit);
  WEFT_USER_CHECK(
      bandwidth > 0,
      "--link-bandwidth is '{}'; expected bytes per second above 0, such as 1.25e9, 500M "
      "or 10G (decimal)",
      text);
  return bandwidth;
}

// "20us", "1.5ms", "300ns", "0".
std::chrono::nanoseconds parse_latency(const std::string& text) {
  if (text.empty()) return VirtualLink{}.latency;
  const NumberWithUnit parsed(text);
  const double ns_per_unit = factor_of(kTimeUnits, parsed.unit);
  const double ns = parsed.value * ns_per_unit;
  const bool needs_no_unit = parsed.value == 0 && parsed.unit.empty();
  constexpr double kMost = 3600e9;
  WEFT_USER_CHECK(
      ns >= 0 && ns <= kMost && (ns_per_unit > 0 || needs_no_unit),
      "--link-latency is '{}'; expected a time of at most an hour with its unit, such as "
      "20us, 1.5ms or 300ns",
      text);
  return std::chrono::nanoseconds(std::llround(ns));
}

}  // namespace

void add_link_options(CLI::App& command, LinkArguments& arguments, const std::string& whose) {
  command.add_option("--link-bandwidth", arguments.bandwidth,
                     whose + ": bytes per second, such as 1.25e9 or 10G (default; decimal)");
  command.add_option("--link-latency", arguments.latency, whose + ": such as 20us; default 10us");
}

VirtualLink parse_link(const LinkArguments& arguments) {
  return {.bytes_per_second = parse_bandwidth(arguments.bandwidth),
          .latency = parse_latency(arguments.latency)};
}

}  // namespace weft
