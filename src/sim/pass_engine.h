// The event loop of a simulated step: passes of slots on devices, with links that they share.
//
// A slot passes p * V virtual stages, forward and back; device d of a rank holds virtual stages d,
// p + d, ... as its V chunks. A pass waits for the same direction of its ranks' previous
// micro-batches in the virtual stage, for the virtual stage before it on its way, and for memory
// (plan/pass_order.h; for V = 1 that is plan/pipeline_time.h's window). All of these belong to
// earlier slots or to its own, so some pass can always run. Then it stands in the queue of each of
// its devices and starts when it is first in all of them: for V = 1 in the order of the times at
// which passes became ready (forward first, then the earlier slot); for V > 1 in the order of
// PassOrder, which is the same on all ranks as it goes by the slots' levels. What a pass still has
// to do is stretched or shortened whenever the load of its links changes.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <queue>
#include <span>
#include <tuple>
#include <vector>

#include "plan/pass_order.h"
#include "plan/step_plan.h"
#include "sim/link_load.h"
#include "sim/slot_times.h"

namespace weft {

struct FinishedPass {
  std::int32_t slot_idx = 0;
  std::int32_t stage = 0;  // the device of each rank
  std::int32_t chunk = 0;  // the virtual stage is chunk * stages + stage
  bool is_backward = false;
  Nanoseconds ready;  // nothing but its devices held it up any more
  Nanoseconds start;
  Nanoseconds end;
  double slowdown = 1;  // of its slowest ring when it ended
};

class PassEngine {
 public:
  // `slot_order`: one in which every rank meets its slots. Arguments outlive the engine.
  PassEngine(const StepPlan& plan, const SlotTimes& times, std::span<const std::int32_t> slot_order,
             LinkLoad load);

  // Calls `done` for every pass in order of their ends.
  void run(const std::function<void(const FinishedPass&)>& done);

 private:
  struct Pass {
    std::int32_t waits_for = 0;
    std::int32_t heads = 0;     // devices that are free and have it first in their queue
    std::int64_t priority = 0;  // in queues, the smaller first
    std::int64_t ready = 0;
    std::int64_t start = -1;
    std::int64_t updated = 0;    // when `remaining` was true
    std::int64_t remaining = 0;  // at the present slowdown
    std::int64_t duration = 0;   // all of it, at the present slowdown
    std::int32_t version = 0;
    double slowdown = 1;
  };
  struct Device {
    bool is_busy = false;
    std::int64_t offered_to = -1;    // the pass among whose heads it counts
    std::deque<std::int64_t> queue;  // passes, by priority
  };
  struct End {
    std::int64_t time = 0;
    std::int64_t pass = 0;
    std::int32_t version = 0;
    bool operator>(const End& other) const {
      return std::tuple(time, pass) > std::tuple(other.time, other.pass);
    }
  };

  // Numbers of passes ascend by slot order, then virtual stage; forward passes come after all
  // backward ones.
  std::int64_t pass_id(std::int32_t place, std::int32_t virtual_stage, bool is_forward) const;
  std::int32_t place_of(std::int64_t pass) const;
  std::int32_t virtual_stage_of(std::int64_t pass) const;
  std::int32_t stage_of(std::int64_t pass) const { return virtual_stage_of(pass) % num_stages_; }
  std::int32_t chunk_of(std::int64_t pass) const { return virtual_stage_of(pass) / num_stages_; }
  bool is_forward(std::int64_t pass) const { return pass < num_forward_; }
  std::int32_t slot_of(std::int64_t pass) const;
  std::int32_t place_of_micro_batch(std::int32_t rank, std::int64_t idx) const;
  std::size_t device_idx(std::int32_t rank, std::int32_t stage) const;

  void set_priorities();
  void count_waits();
  void enqueue_ready();
  void offer_devices();
  void start(std::int64_t id);
  void finish(std::int64_t id, const std::function<void(const FinishedPass&)>& done);
  void release_after(std::int64_t id);
  void release(std::int32_t place, std::int32_t virtual_stage, bool is_forward);
  std::int64_t duration_of(std::int64_t id);
  std::int64_t link_weight(std::int64_t id, std::int32_t ring) const;
  void take_links(std::int64_t id, bool add);
  void update_slowdowns();
  void reschedule(std::int64_t id, std::int64_t duration);

  const StepPlan& plan_;
  const SlotTimes& times_;
  std::span<const std::int32_t> slot_order_;
  LinkLoad load_;
  std::int32_t num_stages_;
  std::int32_t num_chunks_;
  std::int32_t num_virtual_stages_;
  std::int64_t num_forward_;
  PassOrder order_;
  std::int64_t now_ = 0;
  std::int64_t num_queued_ = 0;  // passes that became ready
  std::vector<std::int32_t> place_of_slot_;
  std::vector<Pass> passes_;
  std::vector<Device> devices_;        // [ranks][stages]
  std::vector<HeldPasses> held_;       // [ranks][stages]
  std::vector<double> slowdown_;       // [rings]: scratch, of the pass being timed
  std::vector<std::int64_t> ready_;    // became ready at now_
  std::vector<std::size_t> changed_;   // devices that are free, or whose queues grew
  std::vector<std::int64_t> offered_;  // passes that have more heads than before
  std::vector<std::int64_t> touched_;  // passes whose links changed their load
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
};

}  // namespace weft
