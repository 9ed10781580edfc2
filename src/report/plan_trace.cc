#include "report/plan_trace.h"

#include <fmt/ostream.h>

#include "base/json_text.h"
#include "report/json_number.h"

namespace weft {
namespace {

double microseconds(Nanoseconds time) { return 1e-3 * static_cast<double>(time.value()); }

// "sequence 7 (1000000 tokens over 123 ranks) + 5 whole"
std::string box_name(const PlanView& view, std::size_t first_part, std::size_t end_part) {
  std::string name;
  for (std::size_t p = first_part; p < end_part; ++p) {
    const BoxPart& part = view.parts[p];
    if (!name.empty()) name += " + ";
    if (part.ring_idx == kWholeSequences) {
      name += fmt::format("{} whole", part.num_sequences);
      continue;
    }
    const SharedRing& ring = view.rings[static_cast<std::size_t>(part.ring_idx)];
    name += fmt::format("sequence {}", ring.longest_id);
    if (ring.num_sequences > 1) name += fmt::format(" and {} more", ring.num_sequences - 1);
    name += fmt::format(" ({} tokens over {} ranks)", ring.tokens, ring.degree);
  }
  return name;
}

}  // namespace

void write_plan_trace(std::ostream& out, const PlanView& view) {
  fmt::print(
      out,
      R"({{"displayTimeUnit":"ms","otherData":{{"strategy":{},"plan_hash":"{}","cost":{}}},"traceEvents":[)"
      "\n"
      R"({{"name":"process_name","ph":"M","pid":0,"args":{{"name":{}}}}})",
      json_string(view.strategy), view.hash, json_string(view.cost_name),
      json_string(fmt::format("step {} as planned", view.step)));
  for (std::size_t r = 0; r + 1 < view.first_box.size(); ++r) {
    fmt::print(out,
               ",\n"
               R"({{"name":"thread_name","ph":"M","pid":0,"tid":{},"args":{{"name":"rank {}"}}}})",
               r, r);
    for (std::size_t b = view.first_box[r]; b < view.first_box[r + 1]; ++b) {
      const PlanBox& box = view.boxes[b];
      const SlotTime& slot = view.evaluation.slots[static_cast<std::size_t>(box.slot_idx)];
      const std::size_t end_part =
          b + 1 < view.boxes.size() ? view.boxes[b + 1].first_part : view.parts.size();
      const Nanoseconds duration = view.pipeline_stages > 1 ? slot.end - slot.start : box.own_time;
      fmt::print(
          out,
          ",\n"
          R"({{"name":"{}","cat":"micro-batch","ph":"X","ts":{:.3f},"dur":{:.3f},"pid":0,"tid":{},)"
          R"("args":{{"slot":{},"tokens":{},"offload_ratio":{}}}}})",
          box_name(view, box.first_part, end_part), microseconds(slot.start),
          microseconds(duration), r, box.slot_idx, box.tokens, json_number(box.offload_ratio));
    }
  }
  out << "\n]}\n";
}

}  // namespace weft
