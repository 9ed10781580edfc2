#include "base/parallel_parts.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.h"

namespace weft {

void for_each_part(int num_threads, std::size_t num_parts,
                   const std::function<void(std::size_t part)>& body) {
  WEFT_CHECK(num_threads >= 1, "{} threads for {} parts", num_threads, num_parts);
  std::vector<std::exception_ptr> errors(num_parts);
  std::atomic<std::size_t> next{0};
  const auto take_parts = [&] {
    for (std::size_t part = next++; part < num_parts; part = next++) {
      try {
        body(part);
      } catch (...) {
        errors[part] = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> others;
    const std::size_t most = std::min(static_cast<std::size_t>(num_threads), num_parts);
    for (std::size_t i = 1; i < most; ++i) {
      try {
        others.emplace_back(take_parts);
      } catch (const std::system_error&) {
        break;  // the system has no thread left: those that run take all parts
      }
    }
    take_parts();
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace weft
