#include "machine/memory_bandwidth.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "machine/read_kernel.h"
#include "machine/work_clock.h"

namespace weft {
MemoryBandwidth::MemoryBandwidth(Bytes size)
    : source_(static_cast<std::size_t>(size.value()) / sizeof(std::uint64_t), 1),
      target_(static_cast<std::size_t>(size.value()) / sizeof(std::uint64_t), 2) {}

double MemoryBandwidth::sample_read() {
  const WorkClock work;
  sum_ += sum_words(source_.data(), source_.size());
  asm volatile("" : : "r"(sum_));
  return static_cast<double>(num_bytes()) / work.elapsed_s();
}

double MemoryBandwidth::sample_copy() {
  const WorkClock work;
  std::memcpy(target_.data(), source_.data(), num_bytes());
  asm volatile("" : : "r"(target_.data()) : "memory");
  return static_cast<double>(num_bytes()) / work.elapsed_s();
}

Bytes bandwidth_buffer_size(Bytes last_level_cache, Bytes usable) {
  const Bytes wanted = std::max(64_MiB, last_level_cache * 4);
  return std::max(1_MiB, std::min({wanted, 1024_MiB, usable / 16}));
}

}  // namespace weft
