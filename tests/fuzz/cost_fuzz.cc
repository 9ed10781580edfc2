// Cost files.
#include "cost/cost_model.h"
#include "tests/fuzz/fuzz_input.h"

namespace weft::fuzz {

void run_target(Input input) {
  const ScratchFolder folder;
  const auto path = folder.write("cost.json", input);
  const auto cost = value_or_refusal([&] { return load_cost_model(path); });
  if (!cost) return;
  save_cost_model(folder.path() / "again.json", *cost);
  WEFT_CHECK(load_cost_model(folder.path() / "again.json") == *cost, "read back otherwise");
}

}  // namespace weft::fuzz
