#include "comm/communicator.h"

#include <fmt/format.h>

#include <iterator>

namespace weft {

std::string describe(const OpLabel& label) {
  std::string text(label.operation.empty() ? std::string_view("unnamed operation")
                                           : label.operation);
  bool opened = false;
  const auto append = [&](std::string_view name, std::int64_t value) {
    if (value < 0) return;
    fmt::format_to(std::back_inserter(text), "{}{} {}", opened ? ", " : " (", name, value);
    opened = true;
  };
  append("step", label.step);
  append("slot", label.slot);
  append("layer", label.layer);
  append("group", label.group);
  append("hop", label.hop);
  if (opened) text += ')';
  return text;
}

std::chrono::nanoseconds Communicator::now() const {
  return std::chrono::steady_clock::now().time_since_epoch();
}

std::string_view channel_name(Channel channel) {
  switch (channel) {
    case Channel::kRing:
      return "ring";
    case Channel::kReduce:
      return "reduce";
    case Channel::kControl:
      return "control";
  }
  return "unknown";
}

}  // namespace weft
