#include "cli/link_options.h"

#include <charconv>
#include <cmath>
#include <string_view>

#include "base/error.h"

namespace weft {
namespace {

// "10G", "2.5e9": bytes per second.
double parse_bandwidth(const std::string& text) {
  if (text.empty()) return VirtualLink{}.bytes_per_second;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const double factor = unit.empty()  ? 1
                        : unit == "K" ? 1e3
                        : unit == "M" ? 1e6
                        : unit == "G" ? 1e9
                                      : 0;
  WEFT_USER_CHECK(
      error == std::errc() && factor > 0 && value > 0,
      "--link-bandwidth is '{}'; expected bytes per second above 0, such as 1.25e9, 500M "
      "or 10G (decimal)",
      text);
  return value * factor;
}

// "20us", "1.5ms", "300ns", "0".
std::chrono::nanoseconds parse_latency(const std::string& text) {
  if (text.empty()) return VirtualLink{}.latency;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const double ns = unit == "ns"   ? 1
                    : unit == "us" ? 1e3
                    : unit == "ms" ? 1e6
                    : unit == "s"  ? 1e9
                                   : 0;
  constexpr double kMost = 3600e9;
  WEFT_USER_CHECK(
      error == std::errc() && value >= 0 && value * ns <= kMost &&
          (ns > 0 || (value == 0 && unit.empty())),
      "--link-latency is '{}'; expected a time of at most an hour with its unit, such as "
      "20us, 1.5ms or 300ns",
      text);
  return std::chrono::nanoseconds(std::llround(value * ns));
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
