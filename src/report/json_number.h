// A double as JSON.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string>

namespace weft {

// Shortest text that reads back to the same double; null for what JSON cannot say.
inline std::string json_number(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

}  // namespace weft
