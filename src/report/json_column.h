// Columns of a report's data: "key":[value of each element, ...], a fraction of what objects with
// named members take.
#pragma once

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <string_view>

namespace weft {

// Appends ,"key":[...]. `value` turns an element into what fmt prints: a number or JSON text.
template <class Elements, class Value>
void append_column(std::string& text, std::string_view key, const Elements& elements,
                   const Value& value) {
  fmt::format_to(std::back_inserter(text), ",\"{}\":[", key);
  const char* separator = "";
  for (const auto& element : elements) {
    fmt::format_to(std::back_inserter(text), "{}{}", separator, value(element));
    separator = ",";
  }
  text += ']';
}

}  // namespace weft
