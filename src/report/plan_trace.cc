#include "report/plan_trace.h"

#include <fmt/ostream.h>

#include "base/chrome_trace.h"
#include "base/json_text.h"

namespace weft {
namespace {

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
  fmt::print(out,
             R"({{"displayTimeUnit":"ms","otherData":{{"strategy":{},"plan_hash":"{}","cost":{}}},)"
             R"("traceEvents":[)"
             "\n{}",
             json_string(view.strategy), view.hash, json_string(view.cost_name),
             chrome_process_name(0, fmt::format("step {} as planned", view.step)));
  for (std::size_t r = 0; r + 1 < view.first_box.size(); ++r) {
    out << ",\n" << chrome_thread_name(0, static_cast<std::int64_t>(r), fmt::format("rank {}", r));
    for (std::size_t b = view.first_box[r]; b < view.first_box[r + 1]; ++b) {
      const PlanBox& box = view.boxes[b];
      const SlotTime& slot = view.evaluation.slots[static_cast<std::size_t>(box.slot_idx)];
      const std::size_t end_part =
          b + 1 < view.boxes.size() ? view.boxes[b + 1].first_part : view.parts.size();
      const Nanoseconds duration = view.pipeline_stages > 1 ? slot.end - slot.start : box.own_time;
      out << ",\n"
          << chrome_event({.name = box_name(view, box.first_part, end_part),
                           .category = "micro-batch",
                           .thread = static_cast<std::int64_t>(r),
                           .start_ns = slot.start.value(),
                           .duration_ns = duration.value(),
                           .arguments = fmt::format(R"("slot":{},"tokens":{},"offload_ratio":{})",
                                                    box.slot_idx, box.tokens,
                                                    json_number(box.offload_ratio))});
    }
  }
  out << "\n]}\n";
}

}  // namespace weft
