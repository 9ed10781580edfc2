#include "base/huge_pages.h"

#include <sys/mman.h>

#include <cstdint>

namespace weft {

void prefer_huge_pages([[maybe_unused]] void* begin, [[maybe_unused]] std::size_t num_bytes) {
#ifdef MADV_HUGEPAGE
  constexpr std::uintptr_t kHugePage = std::uintptr_t{2} << 20;
  // Whole huge pages of the stretch: its ends may share a page with something else.
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const std::uintptr_t first = (address + kHugePage - 1) / kHugePage * kHugePage;
  const std::uintptr_t last = (address + num_bytes) / kHugePage * kHugePage;
  if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
}

}  // namespace weft
