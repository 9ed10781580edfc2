// XXH3 checksums: 64 bits guard a file or message, 128 bits name a plan or a corpus.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace weft {

std::uint64_t checksum64(std::span<const std::byte> data);
std::uint64_t checksum64(std::string_view text);

struct Hash128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  std::string hex() const;  // 32 lower-case digits
  friend constexpr auto operator<=>(const Hash128&, const Hash128&) = default;
};

Hash128 hash128(std::span<const std::byte> data);
Hash128 hash128(std::string_view text);

// As formats write them: 16 lower-case hexadecimal digits for 64 bits, 32 for 128. Parsing raises a
// UserError that starts with `what` for anything else.
std::string hex64(std::uint64_t value);
std::uint64_t parse_hex64(std::string_view text, std::string_view what);
Hash128 parse_hash128(std::string_view text, std::string_view what);

// The same two values over data that arrives in parts. Not thread-safe.
class StreamingHash {
 public:
  StreamingHash();
  ~StreamingHash();
  StreamingHash(StreamingHash&&) noexcept;
  StreamingHash& operator=(StreamingHash&&) noexcept;

  void update(std::span<const std::byte> data);
  std::uint64_t checksum64() const;
  Hash128 hash128() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft
