#include "attention/attention_kernel.h"

#include "base/error.h"

namespace weft {

std::unique_ptr<AttentionKernel> make_attention_kernel(std::string_view name) {
  if (name == "reference") return make_reference_kernel();
  if (name == "blocked") return make_blocked_kernel();
  throw_user_error("attention kernel: expected 'blocked' or 'reference', got '{}'", name);
}

}  // namespace weft
