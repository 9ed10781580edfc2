#include "corpus/file_header.h"

#include <algorithm>
#include <cstring>

#include "base/checksum.h"

namespace weft {
namespace {

constexpr std::size_t kSealedBytes = kFileHeaderBytes - sizeof(std::uint64_t);

}  // namespace

void begin_header(const FileKind& kind, ByteWriter& writer) {
  for (const char c : kind.magic) writer.write(c);
  writer.write(kind.version);
}

std::vector<std::byte> seal_header(ByteWriter writer) {
  std::vector<std::byte> header = writer.take();
  WEFT_CHECK(header.size() <= kSealedBytes, "a header of {} bytes", header.size());
  header.resize(kSealedBytes);
  const std::uint64_t checksum = checksum64(header);
  header.resize(kFileHeaderBytes);
  std::memcpy(header.data() + kSealedBytes, &checksum, sizeof(checksum));
  return header;
}

ByteReader open_header(std::span<const std::byte> file, const FileKind& kind,
                       const std::string& what) {
  WEFT_USER_CHECK(
      file.size() >= kFileHeaderBytes,
      "{}: expected a {} with a header of {} bytes, found {} bytes in all; build the corpus again",
      what, kind.name, kFileHeaderBytes, file.size());
  const auto header = file.first(kFileHeaderBytes);
  const std::string_view magic(reinterpret_cast<const char*>(header.data()), kind.magic.size());
  if (magic != kind.magic) {
    std::string found;
    for (const char c : magic) found += (c >= ' ' && c <= '~') ? c : '?';
    throw_user_error(
        "{}: expected a {} that begins with '{}', found '{}': this is another kind of file", what,
        kind.name, kind.magic, found);
  }
  ByteReader reader(header, what);
  for (std::size_t i = 0; i < kind.magic.size(); ++i) reader.read<char>();
  const auto version = reader.read<std::uint32_t>();
  // First of all: a newer version may keep its checksum elsewhere.
  WEFT_USER_CHECK(version >= 1 && version <= kind.version,
                  "{}: this {} has version {}, this program reads versions 1 to {}: read it with a "
                  "newer program, or "
                  "build the corpus again if the file may be damaged",
                  what, kind.name, version, kind.version);
  std::uint64_t stored = 0;
  std::memcpy(&stored, header.data() + kSealedBytes, sizeof(stored));
  const std::uint64_t computed = checksum64(header.first(kSealedBytes));
  WEFT_USER_CHECK(stored == computed,
                  "{}: the header of this {} is damaged: its checksum is {:016x}, its bytes give "
                  "{:016x}; build the "
                  "corpus again",
                  what, kind.name, stored, computed);
  return reader;
}

}  // namespace weft
