// How far a sweep goes under a sanitizer, where everything takes several times as long: every kind
// of case still runs, in fewer sizes or repetitions.
#pragma once

namespace weft::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

template <class Count>
constexpr Count unless_sanitized(Count count, Count sanitized) {
  return kIsSanitized ? sanitized : count;
}

}  // namespace weft::testing
