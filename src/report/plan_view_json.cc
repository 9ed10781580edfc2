#include "base/json_text.h"
#include "report/json_column.h"
#include "report/plan_view.h"

namespace weft {
namespace {

void append_head(std::string& text, const PlanView& view) {
  const Evaluation& evaluation = view.evaluation;
  fmt::format_to(
      std::back_inserter(text),
      R"({{"name":{},"strategy":{},"hash":"{}","cost":{},"step":{},"ranks":{},"slots":{},"stages":{},"capacity":{},)"
      R"("tokens":{},"sequences":{},"makespan_ns":{},"planned_makespan_ns":{},"bound_ns":{},"gap":{},"imbalance":{},)"
      R"("idle_share":{},"exchange_bytes":{},"shared":{},"max_degree":{},"micro_batches":{})",
      json_string(view.name), json_string(view.strategy), view.hash, json_string(view.cost_name),
      view.step, evaluation.ranks.size(), evaluation.slots.size(), view.pipeline_stages,
      view.capacity, view.tokens, view.num_sequences, evaluation.makespan, view.planned_makespan,
      view.lower_bound, json_number(view.gap), json_number(evaluation.imbalance),
      json_number(evaluation.idle_share), json_number(view.exchange_bytes),
      evaluation.sharded_sequences, evaluation.max_degree, view.boxes.size());
  text += ",\"split\":{";
  const char* separator = "";
  const std::array<double, 6> split = values(view.split);
  for (std::size_t i = 0; i < split.size(); ++i) {
    fmt::format_to(std::back_inserter(text), "{}\"{}\":{}", separator, kTimeSplitNames[i],
                   json_number(split[i]));
    separator = ",";
  }
  text += '}';
}

}  // namespace

std::string plan_json(const PlanView& view) {
  const Evaluation& evaluation = view.evaluation;
  std::string text;
  append_head(text, view);
  append_column(text, "notes", view.notes,
                [](const std::string& note) { return json_string(note); });
  append_column(text, "bucket_sequences", view.lengths.buckets(),
                [](const LengthBucket& bucket) { return bucket.num_samples; });
  append_column(text, "bucket_tokens", view.lengths.buckets(),
                [](const LengthBucket& bucket) { return bucket.tokens; });
  append_column(text, "ring_id", view.rings, [](const SharedRing& r) { return r.longest_id; });
  append_column(text, "ring_sequences", view.rings,
                [](const SharedRing& r) { return r.num_sequences; });
  append_column(text, "ring_tokens", view.rings, [](const SharedRing& r) { return r.tokens; });
  append_column(text, "ring_degree", view.rings, [](const SharedRing& r) { return r.degree; });
  append_column(text, "slot_start", evaluation.slots, [](const SlotTime& s) { return s.start; });
  append_column(text, "slot_end", evaluation.slots, [](const SlotTime& s) { return s.end; });
  append_column(text, "rank_busy", evaluation.ranks, [](const RankTime& r) { return r.busy; });
  append_column(text, "rank_finish", evaluation.ranks, [](const RankTime& r) { return r.finish; });
  append_column(text, "rank_tokens", evaluation.ranks, [](const RankTime& r) { return r.tokens; });
  append_column(text, "first_box", view.first_box, [](std::uint32_t first) { return first; });
  append_column(text, "box_slot", view.boxes, [](const PlanBox& b) { return b.slot_idx; });
  append_column(text, "box_own", view.boxes, [](const PlanBox& b) { return b.own_time; });
  append_column(text, "box_tokens", view.boxes, [](const PlanBox& b) { return b.tokens; });
  append_column(text, "box_ratio", view.boxes,
                [](const PlanBox& b) { return json_number(b.offload_ratio); });
  append_column(text, "box_part", view.boxes, [](const PlanBox& b) { return b.first_part; });
  append_column(text, "part_ring", view.parts, [](const BoxPart& p) { return p.ring_idx; });
  append_column(text, "part_tokens", view.parts, [](const BoxPart& p) { return p.tokens; });
  append_column(text, "part_sequences", view.parts,
                [](const BoxPart& p) { return p.num_sequences; });
  append_column(text, "part_permille", view.parts, [](const BoxPart& p) { return p.permille; });
  return text + "}";
}

}  // namespace weft
