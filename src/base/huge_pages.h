// Large arrays that are filled once: fewer, larger pages cost less to touch first and to find
// again.
#pragma once

#include <cstddef>
#include <vector>

namespace weft {

// Advice for memory that has not been touched yet; without effect on small stretches and where the
// system has no huge pages.
void prefer_huge_pages(void* begin, std::size_t num_bytes);

// An empty vector with room for `capacity` items.
template <class Item>
std::vector<Item> reserve_large(std::size_t capacity) {
  std::vector<Item> items;
  items.reserve(capacity);
  prefer_huge_pages(items.data(), capacity * sizeof(Item));
  return items;
}

}  // namespace weft
