// Checks of text that arrives in parts: UTF-8 whose code points may be cut by a part's end, and NUL
// bytes.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "corpus/bad_record.h"

namespace weft {

// Length of the longest prefix of `bytes` that does not end inside a code point: at most 3 bytes
// shorter. Bytes that cannot be the start of a code point are not held back.
std::size_t complete_utf8_prefix(std::string_view bytes);

struct TextFlaw {
  BadRecordReason reason;  // kInvalidUtf8 or kBinary
  std::size_t position;    // of the first flaw; for UTF-8 the start of the bad code point
};

// The first byte of `bytes` that makes it no text, or nullopt when it is whole valid UTF-8 without
// NUL.
std::optional<TextFlaw> find_text_flaw(std::string_view bytes);

// "expected UTF-8, found byte 0xff ..." for the flaw.
std::string describe_flaw(const TextFlaw& flaw, std::string_view bytes);

}  // namespace weft
