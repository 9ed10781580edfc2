#include "base/error.h"

namespace weft {

void vthrow_user_error(fmt::string_view format, fmt::format_args args) {
  throw UserError(fmt::vformat(format, args));
}

void vthrow_comm_error(fmt::string_view format, fmt::format_args args) {
  throw CommError(fmt::vformat(format, args));
}

void vthrow_internal_error(fmt::string_view format, fmt::format_args args) {
  throw InternalError(fmt::vformat(format, args));
}

void throw_check_failed(const char* file, int line, const char* condition,
                        const std::string& message) {
  throw_internal_error("{}:{}: {} does not hold: {}", file, line, condition, message);
}

}  // namespace weft
