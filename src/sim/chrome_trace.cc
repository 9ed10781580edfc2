#include <fmt/format.h>

#include <iterator>

#include "base/file.h"
#include "base/json_text.h"
#include "sim/timeline.h"

namespace weft {

// "X" events: complete, times in microseconds. Names of processes and threads come first.
void save_chrome_trace(const std::filesystem::path& path, const Timeline& timeline) {
  AtomicFile file(path);
  FileWriter& out = file.writer();
  out.write("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
  std::string text;
  for (std::int32_t rank = 0; rank < timeline.num_ranks; ++rank) {
    text += fmt::format(
        "{{\"ph\":\"M\",\"pid\":{},\"name\":\"process_name\",\"args\":{{\"name\":\"rank {}\"}}}}",
        rank, rank);
    for (std::int32_t stage = 0; stage < timeline.pipeline_stages; ++stage) {
      text += fmt::format(
          ",\n{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"thread_name\",\"args\":{{\"name\":"
          "\"stage {}\"}}}}",
          rank, stage, stage);
    }
    text += rank + 1 < timeline.num_ranks || !timeline.events.empty() ? ",\n" : "\n";
  }
  out.write(text);
  for (std::size_t i = 0; i < timeline.events.size(); ++i) {
    const TimelineEvent& event = timeline.events[i];
    out.write(fmt::format(
        "{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"name\":\"{}\",\"ts\":{:.3f},\"dur\":{:.3f},"
        "\"args\":"
        "{{\"micro_batch\":{},\"slot\":{}}}}}{}\n",
        event.rank, event.stage, kActivityNames[static_cast<std::size_t>(event.activity)],
        static_cast<double>(event.start.value()) / 1e3,
        static_cast<double>((event.end - event.start).value()) / 1e3, event.micro_batch_idx,
        event.slot_idx, i + 1 < timeline.events.size() ? "," : ""));
  }
  out.write(fmt::format("],\"otherData\":{{\"strategy\":{},\"cost\":{}}}}}\n",
                        json_string(timeline.strategy), json_string(timeline.cost)));
  file.commit();
}

}  // namespace weft
