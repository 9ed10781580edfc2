// The 64-byte header that the corpus's binary files share: magic, version, fields of the kind,
// zeros, checksum.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/binary_io.h"

namespace weft {

inline constexpr std::size_t kFileHeaderBytes = 64;

struct FileKind {
  std::string_view magic;  // 8 bytes
  std::string_view name;   // for messages
  std::uint32_t version;   // the newest that this build reads
};

// Magic and version; the fields follow.
void begin_header(const FileKind& kind, ByteWriter& writer);
// Pads with zeros and adds the XXH3-64 of the first 56 bytes.
std::vector<std::byte> seal_header(ByteWriter writer);
// A reader that stands behind magic and version, all of the header checked. UserError names `what`.
ByteReader open_header(std::span<const std::byte> file, const FileKind& kind,
                       const std::string& what);

}  // namespace weft
