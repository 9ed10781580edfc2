#include "corpus/bad_record.h"

namespace weft {

std::string_view to_string(BadRecordReason reason) {
  switch (reason) {
    case BadRecordReason::kBadJson:
      return "bad_json";
    case BadRecordReason::kSeveralValues:
      return "several_values";
    case BadRecordReason::kMissingKey:
      return "missing_key";
    case BadRecordReason::kWrongType:
      return "wrong_type";
    case BadRecordReason::kDuplicateKey:
      return "duplicate_key";
    case BadRecordReason::kInvalidUtf8:
      return "invalid_utf8";
    case BadRecordReason::kBinary:
      return "binary";
    case BadRecordReason::kDamagedCompression:
      return "damaged_compression";
  }
  throw_internal_error("bad record reason {} has no name", static_cast<int>(reason));
}

BadRecordError::BadRecordError(BadRecordReason reason, RecordPlace place, std::string_view problem)
    : UserError(fmt::format(
          "{}:{}:{} (byte {}): {}. Mend the record, or leave such records out and count them "
          "with --on-bad-record skip ({})",
          place.path, place.line, place.column, place.offset, problem, to_string(reason))),
      reason_(reason),
      place_(std::move(place)) {}

std::string_view to_string(BadRecordPolicy policy) {
  return policy == BadRecordPolicy::kFail ? "fail" : "skip";
}

BadRecordPolicy parse_bad_record_policy(std::string_view text, std::string_view what) {
  if (text == "fail") return BadRecordPolicy::kFail;
  if (text == "skip") return BadRecordPolicy::kSkip;
  throw_user_error("{}: expected fail or skip, got '{}'", what, text);
}

}  // namespace weft
