// Hugging Face model configs.
#include <cmath>

#include "cost/model_shape.h"
#include "tests/fuzz/fuzz_input.h"

namespace weft::fuzz {

void run_target(Input input) {
  const ScratchFolder folder;
  const auto path = folder.write("config.json", input);
  const auto model = value_or_refusal([&] { return read_hf_config(path); });
  if (!model) return;
  WEFT_CHECK(num_parameters(*model) >= num_active_parameters(*model), "more active than there are");
  WEFT_CHECK(std::isfinite(num_parameters(*model)), "endless parameters");
}

}  // namespace weft::fuzz
