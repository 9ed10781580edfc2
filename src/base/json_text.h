// Texts and numbers as JSON, for what is streamed without building a document.
#pragma once

#include <string>
#include <string_view>

namespace weft {

// With its quotes. A byte that is no part of well-formed UTF-8 becomes U+FFFD, so that the result
// is always valid.
std::string json_string(std::string_view text);

// Shortest text that reads back to the same double; null for what JSON cannot say (NaN, infinity).
std::string json_number(double value);

}  // namespace weft
