#include "plan/pipeline_time.h"

#include <algorithm>
#include <queue>
#include <tuple>

#include "base/error.h"
#include "cost/micro_batch_time.h"
#include "plan/interleaved_time.h"

namespace weft {
namespace {

struct Member {
  std::int32_t rank = 0;
  std::int32_t micro_batch_idx = 0;
};

// A pass that nothing but its devices holds up. Earlier times first; then forward: a backward pass
// of a micro-batch lets in another one, and where its successor waits already, 1F1B runs the one
// let in first; then the earlier slot.
struct Ready {
  std::int64_t time = 0;
  bool is_forward = true;
  std::int32_t place = 0;  // of the slot in the order
  std::int32_t stage = 0;
  auto key() const { return std::tuple(time, !is_forward, place, stage); }
  bool operator>(const Ready& other) const { return key() > other.key(); }
};

class PipelineRun {
 public:
  PipelineRun(const PipelineInput& input, const CostModel& cost)
      : plan_(*input.plan),
        cost_(cost),
        input_(input),
        num_stages_(input.plan->pipeline_stages),
        first_(input.slot_order.size() + 1),
        free_at_(plan_.ranks.size() * static_cast<std::size_t>(num_stages_)),
        passes_(2 * input.slot_order.size() * static_cast<std::size_t>(num_stages_)),
        place_of_slot_(input.slot_order.size()) {
    WEFT_CHECK_EQ(input.slot_order.size(), static_cast<std::size_t>(plan_.num_slots), "slot order");
    WEFT_CHECK(num_stages_ >= 1 && num_stages_ <= cost.num_layers, "{} stages of {} layers",
               num_stages_, cost.num_layers);
    for (std::size_t place = 0; place < place_of_slot_.size(); ++place)
      place_of_slot_[static_cast<std::size_t>(input.slot_order[place])] =
          static_cast<std::int32_t>(place);
    list_members();
    count_waits();
  }

  void run(const std::function<void(const PipelinePass&)>& done) {
    std::size_t num_done = 0;
    for (; !ready_.empty(); ++num_done) {
      const Ready next = ready_.top();
      ready_.pop();
      const PipelinePass pass = serve(next);
      done(pass);
      release_after(next, pass.end.value());
    }
    WEFT_CHECK_EQ(num_done, passes_.size(), "passes of pipelines that could run");
  }

 private:
  struct Pass {
    std::int32_t waits_for = 0;  // passes that must end first
    std::int64_t ready_at = 0;
  };

  std::span<const Member> members(std::int32_t place) const {
    const auto p = static_cast<std::size_t>(place);
    return std::span(members_).subspan(first_[p], first_[p + 1] - first_[p]);
  }
  Pass& pass(std::int32_t place, std::int32_t stage, bool is_forward) {
    return passes_[2 * (static_cast<std::size_t>(place) * static_cast<std::size_t>(num_stages_) +
                        static_cast<std::size_t>(stage)) +
                   (is_forward ? 0 : 1)];
  }
  // Of the rank's micro-batch `idx`; -1 when it has none.
  std::int32_t place_of(std::int32_t rank, std::int64_t idx) const {
    const auto& list = plan_.ranks[static_cast<std::size_t>(rank)];
    if (idx < 0 || idx >= static_cast<std::int64_t>(list.size())) return -1;
    return place_of_slot_[static_cast<std::size_t>(list[static_cast<std::size_t>(idx)].slot_idx)];
  }
  std::int32_t window(std::int32_t stage) const { return num_stages_ - stage; }

  void list_members() {
    for (const auto& list : plan_.ranks) {
      for (const MicroBatch& m : list)
        ++first_[static_cast<std::size_t>(place_of_slot_[static_cast<std::size_t>(m.slot_idx)]) +
                 1];
    }
    for (std::size_t p = 0; p + 1 < first_.size(); ++p) first_[p + 1] += first_[p];
    members_.resize(first_.back());
    std::vector<std::size_t> next(first_.begin(), first_.end() - 1);
    for (std::size_t r = 0; r < plan_.ranks.size(); ++r) {
      for (std::size_t m = 0; m < plan_.ranks[r].size(); ++m) {
        const auto rank = static_cast<std::int32_t>(r);
        const auto idx = static_cast<std::int32_t>(m);
        members_[next[static_cast<std::size_t>(place_of(rank, idx))]++] = {rank, idx};
      }
    }
  }

  void count_waits() {
    for (std::int32_t place = 0; place < plan_.num_slots; ++place) {
      for (std::int32_t stage = 0; stage < num_stages_; ++stage) {
        Pass& forward = pass(place, stage, true);
        Pass& backward = pass(place, stage, false);
        forward.waits_for = stage > 0 ? 1 : 0;
        backward.waits_for = 1;  // the stage after it, or its own forward pass in the last
        for (const Member& member : members(place)) {
          if (member.micro_batch_idx > 0) {
            ++forward.waits_for;
            ++backward.waits_for;
          }
          if (member.micro_batch_idx >= window(stage)) ++forward.waits_for;
        }
        if (forward.waits_for == 0)
          ready_.push({.time = 0, .is_forward = true, .place = place, .stage = stage});
      }
    }
  }

  PipelinePass serve(const Ready& next) {
    const std::int32_t slot_idx = input_.slot_order[static_cast<std::size_t>(next.place)];
    const double layer_ns = input_.layer_ns[static_cast<std::size_t>(slot_idx)];
    const std::int32_t layers = layers_of_stage(cost_.num_layers, num_stages_, next.stage);
    const Nanoseconds duration = next.is_forward ? forward_time(cost_, layer_ns, layers)
                                                 : backward_time(cost_, layer_ns, layers);
    std::int64_t start = next.time;
    for (const Member& member : members(next.place))
      start = std::max(start, free_at(member.rank, next.stage));
    std::int64_t end = start;
    WEFT_USER_CHECK(
        !__builtin_add_overflow(start, duration.value(), &end),
        "evaluate: the time in nanoseconds exceeds 2^63; plan fewer or shorter sequences");
    for (const Member& member : members(next.place)) free_at(member.rank, next.stage) = end;
    return {.slot_idx = slot_idx,
            .stage = next.stage,
            .is_backward = !next.is_forward,
            .start = Nanoseconds(start),
            .end = Nanoseconds(end)};
  }

  void release_after(const Ready& ended, std::int64_t time) {
    const std::int32_t last = num_stages_ - 1;
    if (ended.is_forward) {
      if (ended.stage < last) {
        release(ended.place, ended.stage + 1, true, time);
      } else {
        release(ended.place, last, false, time);
      }
    } else if (ended.stage > 0) {
      release(ended.place, ended.stage - 1, false, time);
    }
    for (const Member& member : members(ended.place)) {
      const std::int64_t idx = member.micro_batch_idx;
      if (const std::int32_t next = place_of(member.rank, idx + 1); next >= 0)
        release(next, ended.stage, ended.is_forward, time);
      if (ended.is_forward) continue;
      const std::int32_t freed = place_of(member.rank, idx + window(ended.stage));
      if (freed >= 0) release(freed, ended.stage, true, time);
    }
  }

  void release(std::int32_t place, std::int32_t stage, bool is_forward, std::int64_t time) {
    Pass& waiting = pass(place, stage, is_forward);
    waiting.ready_at = std::max(waiting.ready_at, time);
    if (--waiting.waits_for == 0) {
      ready_.push(
          {.time = waiting.ready_at, .is_forward = is_forward, .place = place, .stage = stage});
    }
  }

  std::int64_t& free_at(std::int32_t rank, std::int32_t stage) {
    return free_at_[static_cast<std::size_t>(rank) * static_cast<std::size_t>(num_stages_) +
                    static_cast<std::size_t>(stage)];
  }

  const StepPlan& plan_;
  const CostModel& cost_;
  const PipelineInput& input_;
  std::int32_t num_stages_;
  std::vector<std::size_t> first_;     // [slots + 1]: of members_
  std::vector<Member> members_;        // of each slot, by its place in the order
  std::vector<std::int64_t> free_at_;  // [ranks][stages]
  std::vector<Pass> passes_;           // [place][stage][forward, backward]
  std::vector<std::int32_t> place_of_slot_;
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready_;
};

}  // namespace

std::int32_t layers_of_stage(std::int32_t num_layers, std::int32_t num_stages, std::int32_t stage) {
  return num_layers / num_stages + (stage < num_layers % num_stages ? 1 : 0);
}

void run_pipelines(const PipelineInput& input, const CostModel& cost,
                   const std::function<void(const PipelinePass&)>& done) {
  if (input.plan->virtual_stages > 1) return run_interleaved(input, cost, done);
  PipelineRun(input, cost).run(done);
}

}  // namespace weft
