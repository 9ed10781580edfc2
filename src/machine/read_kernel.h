// Reads memory as fast as one core can: wide loads, chosen at run time (Highway).
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft {

// Sum of `count` words, modulo 2^64.
std::uint64_t sum_words(const std::uint64_t* words, std::size_t count);

}  // namespace weft
