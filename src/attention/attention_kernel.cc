#include "attention/attention_kernel.h"

#include "base/error.h"

namespace weft {

std::unique_ptr<AttentionKernel> make_attention_kernel(std::string_view name, int num_threads) {
  if (name == "reference") return make_reference_kernel();
  if (name == "blocked") return make_blocked_kernel(num_threads);
  throw_user_error("attention kernel: expected 'blocked' or 'reference', got '{}'", name);
}

}  // namespace weft
