// What is wrong with a piece of input, where, and why it counts.
//
// A bad record is data that cannot become a document: the build stops at it or leaves it out and
// counts it, as the policy says. Failures of the file system are plain UserErrors, which no policy
// skips.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace weft {

enum class BadRecordReason : std::uint8_t {
  kBadJson,             // not JSON
  kSeveralValues,       // a second value behind the object of a line
  kMissingKey,          // no such key in the object
  kWrongType,           // the line is no object, or the key's value is no string
  kDuplicateKey,        // the key stands twice in one object
  kInvalidUtf8,         // bytes that are not UTF-8
  kBinary,              // NUL bytes: not a text
  kDamagedCompression,  // truncated or damaged .gz or .zst
};
inline constexpr std::size_t kNumBadRecordReasons = 8;

std::string_view to_string(BadRecordReason reason);  // "bad_json", ...

// How many records were left out, by reason.
using BadRecordCounts = std::array<std::int64_t, kNumBadRecordReasons>;

struct RecordPlace {
  std::string path;
  std::int64_t line = 1;    // from 1
  std::int64_t column = 1;  // byte in the line, from 1
  std::int64_t offset = 0;  // byte in the (decompressed) file, from 0
};

class BadRecordError : public UserError {
 public:
  // `problem` says what was expected and what was found.
  BadRecordError(BadRecordReason reason, RecordPlace place, std::string_view problem);
  BadRecordReason reason() const { return reason_; }
  const RecordPlace& place() const { return place_; }

 private:
  BadRecordReason reason_;
  RecordPlace place_;
};

enum class BadRecordPolicy : std::uint8_t { kFail, kSkip };
std::string_view to_string(BadRecordPolicy policy);  // "fail", "skip"
BadRecordPolicy parse_bad_record_policy(std::string_view text, std::string_view what);

}  // namespace weft
