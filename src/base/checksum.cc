#include "base/checksum.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <charconv>

#include "base/error.h"

namespace weft {

struct StreamingHash::State {
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> narrow{XXH3_createState()};
  std::unique_ptr<XXH3_state_t, Free> wide{XXH3_createState()};
};

std::uint64_t checksum64(std::span<const std::byte> data) {
  return XXH3_64bits(data.data(), data.size());
}

std::uint64_t checksum64(std::string_view text) {
  return checksum64(std::as_bytes(std::span(text)));
}

std::string Hash128::hex() const { return fmt::format("{:016x}{:016x}", high, low); }

Hash128 hash128(std::span<const std::byte> data) {
  const XXH128_hash_t hash = XXH3_128bits(data.data(), data.size());
  return {hash.high64, hash.low64};
}

Hash128 hash128(std::string_view text) { return hash128(std::as_bytes(std::span(text))); }

std::string hex64(std::uint64_t value) { return fmt::format("{:016x}", value); }

std::uint64_t parse_hex64(std::string_view text, std::string_view what) {
  std::uint64_t value = 0;
  const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  WEFT_USER_CHECK(text.size() == 16 && status == std::errc() && rest == text.data() + text.size(),
                  "{}: expected 16 hexadecimal digits, found '{}'", what, text);
  return value;
}

Hash128 parse_hash128(std::string_view text, std::string_view what) {
  WEFT_USER_CHECK(text.size() == 32, "{}: expected a hash of 32 hexadecimal digits, found '{}'",
                  what, text);
  return {parse_hex64(text.substr(0, 16), what), parse_hex64(text.substr(16), what)};
}

StreamingHash::StreamingHash() : state_(std::make_unique<State>()) {
  XXH3_64bits_reset(state_->narrow.get());
  XXH3_128bits_reset(state_->wide.get());
}
StreamingHash::~StreamingHash() = default;
StreamingHash::StreamingHash(StreamingHash&&) noexcept = default;
StreamingHash& StreamingHash::operator=(StreamingHash&&) noexcept = default;

void StreamingHash::update(std::span<const std::byte> data) {
  XXH3_64bits_update(state_->narrow.get(), data.data(), data.size());
  XXH3_128bits_update(state_->wide.get(), data.data(), data.size());
}

std::uint64_t StreamingHash::checksum64() const { return XXH3_64bits_digest(state_->narrow.get()); }

Hash128 StreamingHash::hash128() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->wide.get());
  return {hash.high64, hash.low64};
}

}  // namespace weft
