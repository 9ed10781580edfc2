// Timelines.
#include "sim/timeline.h"
#include "tests/fuzz/fuzz_input.h"

namespace weft::fuzz {

void run_target(Input input) {
  const ScratchFolder folder;
  const auto path = folder.write("timeline.json", input);
  const auto timeline = value_or_refusal([&] { return load_timeline(path); });
  if (!timeline) return;
  save_timeline(folder.path() / "again.json", *timeline);
  WEFT_CHECK(load_timeline(folder.path() / "again.json") == *timeline, "read back otherwise");
  save_chrome_trace(folder.path() / "trace.json", *timeline);
}

}  // namespace weft::fuzz
