// How a plan is refused: one form of message for every kind of damage (validate.h lists them).
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "base/error.h"

namespace weft {

template <class... Args>
[[noreturn]] void refuse_plan(std::string_view kind, fmt::format_string<Args...> format,
                              Args&&... args) {
  throw_user_error("plan is damaged: {}: {}", kind,
                   fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace weft
