// ByteStream: the bytes of a file in order, decompressed when its name ends in .gz or .zst, in
// bounded memory.
//
// Several gzip members or zstd frames behind one another count as one file. A damaged or truncated
// stream raises DamagedStream; what the file system refuses is a UserError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "base/error.h"

namespace weft {

// Text such as "the gzip data ends too early (at compressed byte 812)".
class DamagedStream : public UserError {
 public:
  using UserError::UserError;
};

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Fills `buffer` from the front and returns how many bytes; 0 only at the end. REQUIRES:
  // !buffer.empty().
  virtual std::size_t read(std::span<char> buffer) = 0;
  // Bytes of the file on disk that were read so far: what progress counts.
  virtual std::int64_t input_bytes() const = 0;
};

std::unique_ptr<ByteStream> open_byte_stream(const std::filesystem::path& path);

// The name without .gz or .zst: "a.jsonl.gz" -> "a.jsonl".
std::filesystem::path uncompressed_name(const std::filesystem::path& path);

}  // namespace weft
