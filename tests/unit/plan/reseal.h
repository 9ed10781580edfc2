// Damaged bytes that pass the frame: length and checksum are made right again, so that a test
// reaches the checks behind them. The frame's layout is written out here apart from src/plan, as
// docs/formats.md states it.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/checksum.h"

namespace weft {

inline constexpr std::size_t kPayloadLengthAt = 16, kChecksumAt = 24, kPayloadAt = 32;

inline void reseal(std::vector<std::byte>& bytes) {
  const auto payload = std::span(bytes).subspan(kPayloadAt);
  const std::uint64_t length = payload.size();
  const std::uint64_t checksum = checksum64(payload);
  std::memcpy(bytes.data() + kPayloadLengthAt, &length, sizeof(length));
  std::memcpy(bytes.data() + kChecksumAt, &checksum, sizeof(checksum));
}

// Writes `value` over the bytes at `offset`.
template <class T>
void overwrite(std::vector<std::byte>& bytes, std::size_t offset, T value) {
  ASSERT_LE(offset + sizeof(T), bytes.size());
  std::memcpy(bytes.data() + offset, &value, sizeof(T));
}

}  // namespace weft
