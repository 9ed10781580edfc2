// How fast one thread reads and copies memory that no cache holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/units.h"

namespace weft {

// Two buffers of `size` bytes, touched, so that samples measure memory and not page faults.
class MemoryBandwidth {
 public:
  explicit MemoryBandwidth(Bytes size);

  double sample_read();  // bytes/s read
  double sample_copy();  // bytes/s copied: each byte is read once and written once, counted once
  Bytes size() const { return Bytes(static_cast<std::int64_t>(num_bytes())); }

 private:
  std::size_t num_bytes() const { return source_.size() * sizeof(std::uint64_t); }

  std::vector<std::uint64_t> source_;
  std::vector<std::uint64_t> target_;
  std::uint64_t sum_ = 0;  // of what was read, so that reading cannot be left out
};

// A buffer well past the last-level cache: four times its size, at least 64 MiB, at most a
// sixteenth of `usable` memory and 1 GiB.
Bytes bandwidth_buffer_size(Bytes last_level_cache, Bytes usable);

}  // namespace weft
