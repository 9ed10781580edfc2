#include <fmt/format.h>

#include <iterator>

#include "base/chrome_trace.h"
#include "base/file.h"
#include "base/json_text.h"
#include "sim/timeline.h"

namespace weft {

// Names of processes and threads come first.
void save_chrome_trace(const std::filesystem::path& path, const Timeline& timeline) {
  AtomicFile file(path);
  FileWriter& out = file.writer();
  out.write("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
  std::string text;
  for (std::int32_t rank = 0; rank < timeline.num_ranks; ++rank) {
    text += chrome_process_name(rank, fmt::format("rank {}", rank));
    for (std::int32_t stage = 0; stage < timeline.pipeline_stages; ++stage) {
      text += ",\n" + chrome_thread_name(rank, stage, fmt::format("stage {}", stage));
    }
    text += rank + 1 < timeline.num_ranks || !timeline.events.empty() ? ",\n" : "\n";
  }
  out.write(text);
  for (std::size_t i = 0; i < timeline.events.size(); ++i) {
    const TimelineEvent& event = timeline.events[i];
    const std::string chunk =
        timeline.virtual_stages > 1 ? fmt::format(R"(,"chunk":{})", event.chunk) : "";
    out.write(
        chrome_event({.name = kActivityNames[static_cast<std::size_t>(event.activity)],
                      .category = "simulated",
                      .process = event.rank,
                      .thread = event.stage,
                      .start_ns = event.start.value(),
                      .duration_ns = (event.end - event.start).value(),
                      .arguments = fmt::format(R"("micro_batch":{},"slot":{}{})",
                                               event.micro_batch_idx, event.slot_idx, chunk)}));
    out.write(i + 1 < timeline.events.size() ? ",\n" : "\n");
  }
  out.write(fmt::format("],\"otherData\":{{\"strategy\":{},\"cost\":{}}}}}\n",
                        json_string(timeline.strategy), json_string(timeline.cost)));
  file.commit();
}

}  // namespace weft
