#include "plan/interleaved_time.h"

#include <algorithm>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "cost/micro_batch_time.h"
#include "plan/pass_order.h"

namespace weft {
namespace {

struct Member {
  std::int32_t rank = 0;
  std::int32_t micro_batch_idx = 0;
};

class InterleavedRun {
 public:
  InterleavedRun(const PipelineInput& input, const CostModel& cost)
      : plan_(*input.plan),
        cost_(cost),
        input_(input),
        num_stages_(plan_.pipeline_stages),
        num_virtual_stages_(plan_.pipeline_stages * plan_.virtual_stages),
        num_places_(static_cast<std::int64_t>(input.slot_order.size())),
        order_(plan_.pipeline_stages, plan_.virtual_stages),
        levels_(slot_levels(plan_, input.slot_order)),
        place_of_slot_(input.slot_order.size()),
        members_(input.slot_order.size()),
        passes_(2 * input.slot_order.size() * static_cast<std::size_t>(num_virtual_stages_)),
        devices_(plan_.ranks.size() * static_cast<std::size_t>(num_stages_)),
        held_(devices_.size(), HeldPasses(plan_.virtual_stages)) {
    WEFT_CHECK_EQ(input.slot_order.size(), static_cast<std::size_t>(plan_.num_slots), "slot order");
    WEFT_CHECK(plan_.virtual_stages > 1 && cost.num_layers % num_virtual_stages_ == 0,
               "{} stages of {} chunks of {} layers", num_stages_, plan_.virtual_stages,
               cost.num_layers);
    for (std::int64_t place = 0; place < num_places_; ++place)
      place_of_slot_[static_cast<std::size_t>(slot_of(place))] = place;
    for (std::size_t r = 0; r < plan_.ranks.size(); ++r) {
      for (std::size_t m = 0; m < plan_.ranks[r].size(); ++m) {
        members_[static_cast<std::size_t>(
                     place_of(static_cast<std::int32_t>(r), static_cast<std::int64_t>(m)))]
            .push_back({static_cast<std::int32_t>(r), static_cast<std::int32_t>(m)});
      }
    }
    count_waits();
  }

  void run(const std::function<void(const PipelinePass&)>& done) {
    std::size_t num_done = 0;
    offer();
    for (; !ends_.empty(); ++num_done) {
      const auto [time, id] = ends_.top();
      ends_.pop();
      now_ = time;
      finish(id, done);
      // All that end now do, before anything starts.
      if (ends_.empty() || ends_.top().first > now_) offer();
    }
    WEFT_CHECK_EQ(num_done, passes_.size(), "interleaved passes that could run");
  }

 private:
  using Id = std::int64_t;
  struct Pass {
    std::int32_t waits_for = 0;  // passes that must end first
    std::int32_t heads = 0;      // devices that are free and have it first in their queue
    std::int64_t start = 0;
  };
  struct Device {
    bool is_busy = false;
    Id offered_to = -1;                           // the pass among whose heads it counts
    std::set<std::pair<std::int64_t, Id>> queue;  // priority, pass
  };

  std::int32_t slot_of(std::int64_t place) const {
    return input_.slot_order[static_cast<std::size_t>(place)];
  }
  // Of the rank's micro-batch `idx`; -1 when it has none.
  std::int64_t place_of(std::int32_t rank, std::int64_t idx) const {
    const auto& list = plan_.ranks[static_cast<std::size_t>(rank)];
    if (idx < 0 || idx >= static_cast<std::int64_t>(list.size())) return -1;
    return place_of_slot_[static_cast<std::size_t>(list[static_cast<std::size_t>(idx)].slot_idx)];
  }
  // Forward passes first, by place, then virtual stage.
  Id id_of(std::int64_t place, std::int32_t virtual_stage, bool is_forward) const {
    return (is_forward ? 0 : num_places_ * num_virtual_stages_) + place * num_virtual_stages_ +
           virtual_stage;
  }
  bool is_forward(Id id) const { return id < num_places_ * num_virtual_stages_; }
  std::int64_t place_of(Id id) const { return id / num_virtual_stages_ % num_places_; }
  std::int32_t virtual_stage_of(Id id) const {
    return static_cast<std::int32_t>(id % num_virtual_stages_);
  }
  std::int32_t stage_of(Id id) const { return virtual_stage_of(id) % num_stages_; }
  std::int32_t chunk_of(Id id) const { return virtual_stage_of(id) / num_stages_; }
  Pass& pass(Id id) { return passes_[static_cast<std::size_t>(id)]; }
  const std::vector<Member>& members(Id id) const {
    return members_[static_cast<std::size_t>(place_of(id))];
  }
  std::size_t device_of(const Member& member, std::int32_t stage) const {
    return static_cast<std::size_t>(member.rank) * static_cast<std::size_t>(num_stages_) +
           static_cast<std::size_t>(stage);
  }

  void count_waits() {
    for (Id id = 0; id < num_places_ * num_virtual_stages_; ++id) {
      Pass& forward = pass(id);
      Pass& backward = pass(id_of(place_of(id), virtual_stage_of(id), false));
      forward.waits_for = virtual_stage_of(id) > 0 ? 1 : 0;
      backward.waits_for = 1;  // the virtual stage after it, or its own forward pass in the last
      for (const Member& member : members(id)) {
        if (member.micro_batch_idx > 0) {
          ++forward.waits_for;
          ++backward.waits_for;
        }
        if (order_.forward_number(member.micro_batch_idx, chunk_of(id)) >=
            order_.most_held(stage_of(id)))
          ++forward.waits_for;
      }
      if (forward.waits_for == 0) enqueue(id);
    }
  }

  void enqueue(Id id) {
    const std::int64_t priority =
        order_.priority(levels_[static_cast<std::size_t>(slot_of(place_of(id)))], stage_of(id),
                        chunk_of(id), is_forward(id));
    for (const Member& member : members(id)) {
      const std::size_t device = device_of(member, stage_of(id));
      devices_[device].queue.insert({priority, id});
      changed_.push_back(device);
    }
  }

  // Every free device that may have changed to the first pass of its queue; passes that have all of
  // theirs start.
  void offer() {
    for (const std::size_t d : changed_) {
      Device& device = devices_[d];
      if (device.is_busy || device.queue.empty()) continue;
      const Id first = device.queue.begin()->second;
      if (first == device.offered_to) continue;
      if (device.offered_to >= 0) --pass(device.offered_to).heads;
      device.offered_to = first;
      ++pass(first).heads;
      offered_.push_back(first);
    }
    changed_.clear();
    for (const Id id : offered_) {
      if (pass(id).heads == static_cast<std::int32_t>(members(id).size())) start(id);
    }
    offered_.clear();
  }

  void start(Id id) {
    for (const Member& member : members(id)) {
      Device& device = devices_[device_of(member, stage_of(id))];
      device.is_busy = true;
      device.offered_to = -1;
      device.queue.erase(device.queue.begin());
    }
    pass(id).heads = 0;
    pass(id).start = now_;
    const double layer_ns = input_.layer_ns[static_cast<std::size_t>(slot_of(place_of(id)))];
    const std::int32_t layers = cost_.num_layers / num_virtual_stages_;
    const Nanoseconds duration = is_forward(id) ? forward_time(cost_, layer_ns, layers)
                                                : backward_time(cost_, layer_ns, layers);
    std::int64_t end = now_;
    WEFT_USER_CHECK(
        !__builtin_add_overflow(now_, duration.value(), &end),
        "evaluate: the time in nanoseconds exceeds 2^63; plan fewer or shorter sequences");
    ends_.push({end, id});
  }

  void finish(Id id, const std::function<void(const PipelinePass&)>& done) {
    done({.slot_idx = slot_of(place_of(id)),
          .stage = stage_of(id),
          .is_backward = !is_forward(id),
          .start = Nanoseconds(pass(id).start),
          .end = Nanoseconds(now_),
          .chunk = chunk_of(id)});
    for (const Member& member : members(id)) {
      const std::size_t device = device_of(member, stage_of(id));
      devices_[device].is_busy = false;
      changed_.push_back(device);
    }
    release_after(id);
  }

  void release_after(Id id) {
    const std::int64_t place = place_of(id);
    const std::int32_t virtual_stage = virtual_stage_of(id);
    const bool forward = is_forward(id);
    if (forward) {
      const bool is_last = virtual_stage == num_virtual_stages_ - 1;
      release(id_of(place, is_last ? virtual_stage : virtual_stage + 1, !is_last));
    } else if (virtual_stage > 0) {
      release(id_of(place, virtual_stage - 1, false));
    }
    for (const Member& member : members(id)) {
      const std::int64_t next = place_of(member.rank, member.micro_batch_idx + 1);
      if (next >= 0) release(id_of(next, virtual_stage, forward));
      if (forward) continue;
      const auto count =
          static_cast<std::int64_t>(plan_.ranks[static_cast<std::size_t>(member.rank)].size());
      held_[device_of(member, stage_of(id))].end_backward(
          order_, stage_of(id), chunk_of(id), count, [&](std::int64_t idx, std::int32_t chunk) {
            release(id_of(place_of(member.rank, idx), chunk * num_stages_ + stage_of(id), true));
          });
    }
  }

  void release(Id id) {
    if (--pass(id).waits_for == 0) enqueue(id);
  }

  const StepPlan& plan_;
  const CostModel& cost_;
  const PipelineInput& input_;
  std::int32_t num_stages_;
  std::int32_t num_virtual_stages_;
  std::int64_t num_places_;
  PassOrder order_;
  std::vector<std::int64_t> levels_;  // [slots]
  std::vector<std::int64_t> place_of_slot_;
  std::vector<std::vector<Member>> members_;  // [places]
  std::vector<Pass> passes_;
  std::vector<Device> devices_;   // [ranks][stages]
  std::vector<HeldPasses> held_;  // [ranks][stages]
  std::int64_t now_ = 0;
  std::vector<std::size_t> changed_;  // devices that are free, or whose queues grew
  std::vector<Id> offered_;           // passes that have more heads than before
  using End = std::pair<std::int64_t, Id>;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
};

}  // namespace

void run_interleaved(const PipelineInput& input, const CostModel& cost,
                     const std::function<void(const PipelinePass&)>& done) {
  InterleavedRun(input, cost).run(done);
}

}  // namespace weft
