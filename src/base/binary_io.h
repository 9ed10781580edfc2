// Little-endian serialisation into memory, and a reader that never reads past its end.
//
// ByteReader raises UserError (the bytes came from a file or a peer) that names `what`, the offset,
// the size needed and the size left. read_count refuses a count that the bytes left cannot hold, so
// a damaged length never becomes a large allocation.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/error.h"

namespace weft {

static_assert(std::endian::native == std::endian::little,
              "file formats are little-endian; so is every host so far");

class ByteWriter {
 public:
  template <class T>
    requires std::is_arithmetic_v<T>
  void write(T value) {
    append(&value, sizeof(T));
  }
  // u32 length, then the bytes.
  void write_string(std::string_view text) {
    write(static_cast<std::uint32_t>(text.size()));
    append(text.data(), text.size());
  }
  std::span<const std::byte> bytes() const { return bytes_; }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  void append(const void* data, std::size_t size);

  std::vector<std::byte> bytes_;
};

class ByteReader {
 public:
  ByteReader(std::span<const std::byte> bytes, std::string what)
      : bytes_(bytes), what_(std::move(what)) {}

  template <class T>
    requires std::is_arithmetic_v<T>
  T read() {
    require(sizeof(T));
    T value;
    std::memcpy(&value, bytes_.data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    return value;
  }
  std::string read_string() {
    const auto size = read<std::uint32_t>();
    require(size);
    std::string text(reinterpret_cast<const char*>(bytes_.data()) + offset_, size);
    offset_ += size;
    return text;
  }
  // A u64 count of items that take at least `item_bytes` each.
  std::size_t read_count(std::size_t item_bytes) {
    const auto count = read<std::uint64_t>();
    WEFT_USER_CHECK(
        count <= remaining() / item_bytes,
        "{}: at offset {} a count of {} items of at least {} bytes, but only {} bytes are left",
        what_, offset_ - sizeof(count), count, item_bytes, remaining());
    return static_cast<std::size_t>(count);
  }
  const std::string& what() const { return what_; }
  std::size_t offset() const { return offset_; }
  std::size_t remaining() const { return bytes_.size() - offset_; }
  void expect_end() const {
    WEFT_USER_CHECK(remaining() == 0, "{}: {} unexpected bytes after offset {}", what_, remaining(),
                    offset_);
  }

 private:
  void require(std::size_t size) const {
    WEFT_USER_CHECK(size <= remaining(), "{}: truncated: {} bytes needed at offset {}, {} left",
                    what_, size, offset_, remaining());
  }

  std::span<const std::byte> bytes_;
  std::string what_;
  std::size_t offset_ = 0;
};

}  // namespace weft
