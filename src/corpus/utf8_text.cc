#include "corpus/utf8_text.h"

#include <simdjson.h>

#include <algorithm>
#include <cstring>

namespace weft {
namespace {

// Bytes of the code point that `lead` begins, or 0 when it begins none.
std::size_t code_point_bytes(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return 2;
  if (lead >= 0xe0 && lead <= 0xef) return 3;
  if (lead >= 0xf0 && lead <= 0xf4) return 4;
  return 0;
}

std::size_t first_invalid_utf8(std::string_view bytes) {
  std::size_t position = 0;
  while (position < bytes.size()) {
    const std::size_t size = code_point_bytes(static_cast<unsigned char>(bytes[position]));
    if (size == 0 || position + size > bytes.size() ||
        !simdjson::validate_utf8(bytes.data() + position, size)) {
      return position;
    }
    position += size;
  }
  return position;
}

}  // namespace

std::size_t complete_utf8_prefix(std::string_view bytes) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, bytes.size()); ++back) {
    const auto byte = static_cast<unsigned char>(bytes[bytes.size() - back]);
    if ((byte & 0xc0) == 0x80) continue;  // continuation: its lead is further left
    return code_point_bytes(byte) > back ? bytes.size() - back : bytes.size();
  }
  return bytes.size();
}

std::optional<TextFlaw> find_text_flaw(std::string_view bytes) {
  const std::size_t nul = std::min(bytes.find('\0'), bytes.size());
  if (simdjson::validate_utf8(bytes.data(), bytes.size())) {
    if (nul == bytes.size()) return std::nullopt;
    return TextFlaw{BadRecordReason::kBinary, nul};
  }
  const std::size_t invalid = first_invalid_utf8(bytes);
  if (nul < invalid) return TextFlaw{BadRecordReason::kBinary, nul};
  return TextFlaw{BadRecordReason::kInvalidUtf8, invalid};
}

std::string describe_flaw(const TextFlaw& flaw, std::string_view bytes) {
  if (flaw.reason == BadRecordReason::kBinary) {
    return "expected UTF-8 text, found a NUL byte: this is a binary file or UTF-16";
  }
  std::string found;
  for (std::size_t i = flaw.position; i < std::min(flaw.position + 4, bytes.size()); ++i) {
    found +=
        fmt::format("{}{:02x}", found.empty() ? "" : " ", static_cast<unsigned char>(bytes[i]));
  }
  return fmt::format("expected UTF-8 text, found the bytes {}, which are no code point", found);
}

}  // namespace weft
