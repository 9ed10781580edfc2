// The three kinds of failure, and the checks that raise them.
//
// UserError: configuration or data is wrong; the user can mend it.   (exit code 2)
// IoError: the system refused to write or flush (disk full, read-only).   (exit code 1)
// CommError: a peer failed, mismatched, or kept us waiting too long. (exit code 1)
// PeerFailure: another rank failed first, and that rank says why.    (exit code 1, nothing printed)
// InternalError: our bug.                                            (exit code 1)
// Only cli/ turns them into exit codes. A message says where, what was expected, what was found,
// and what to do.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace weft {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class UserError : public Error {
 public:
  using Error::Error;
};

class IoError : public Error {
 public:
  using Error::Error;
};

class CommError : public Error {
 public:
  using Error::Error;
};

// Thrown on the ranks that were ended by another rank's failure. The failing rank throws its own
// error, so that a run of many processes prints one root cause.
class PeerFailure : public CommError {
 public:
  using CommError::CommError;
};

class InternalError : public Error {
 public:
  using Error::Error;
};

// The message is formatted out of line: with a copy of that code at every check, checks would be
// most of what the compiler has to do.
[[noreturn]] void vthrow_user_error(fmt::string_view format, fmt::format_args args);
[[noreturn]] void vthrow_comm_error(fmt::string_view format, fmt::format_args args);
[[noreturn]] void vthrow_internal_error(fmt::string_view format, fmt::format_args args);
[[noreturn]] void throw_check_failed(const char* file, int line, const char* condition,
                                     const std::string& message);

template <class... Args>
[[noreturn]] void throw_user_error(fmt::format_string<Args...> format, Args&&... args) {
  vthrow_user_error(format, fmt::make_format_args(args...));
}

template <class... Args>
[[noreturn]] void throw_comm_error(fmt::format_string<Args...> format, Args&&... args) {
  vthrow_comm_error(format, fmt::make_format_args(args...));
}

template <class... Args>
[[noreturn]] void throw_internal_error(fmt::format_string<Args...> format, Args&&... args) {
  vthrow_internal_error(format, fmt::make_format_args(args...));
}

}  // namespace weft

// Bug check: raises InternalError with a formatted message (first argument after the condition is
// the format).
#define WEFT_CHECK(condition, ...)                                                            \
  do {                                                                                        \
    if (!(condition)) [[unlikely]] {                                                          \
      ::weft::throw_check_failed(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__)); \
    }                                                                                         \
  } while (false)

// Bug check of two equal values; the message shows both.
#define WEFT_CHECK_EQ(left, right, ...)                                                           \
  do {                                                                                            \
    const auto& weft_left = (left);                                                               \
    const auto& weft_right = (right);                                                             \
    if (!(weft_left == weft_right)) [[unlikely]] {                                                \
      ::weft::throw_internal_error("{}:{}: {} == {} does not hold ({} against {}): {}", __FILE__, \
                                   __LINE__, #left, #right, weft_left, weft_right,                \
                                   ::fmt::format(__VA_ARGS__));                                   \
    }                                                                                             \
  } while (false)

// Check of what the user gave: raises UserError.
#define WEFT_USER_CHECK(condition, ...)      \
  do {                                       \
    if (!(condition)) [[unlikely]] {         \
      ::weft::throw_user_error(__VA_ARGS__); \
    }                                        \
  } while (false)
