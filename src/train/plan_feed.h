// PlanFeed: where each step's plan comes from: the data order and a planner, or plans saved
// earlier.
#pragma once

#include <filesystem>
#include <future>
#include <memory>
#include <vector>

#include "corpus/data_order.h"
#include "plan/planner.h"

namespace weft {

// A seam: tests feed plans of their own. Called by one thread at a time, in step order.
class PlanFeed {
 public:
  virtual ~PlanFeed() = default;
  virtual StepPlan next() = 0;
};

// Takes the next sequences of the data order and plans them. `request` holds everything but
// sequences and step.
std::unique_ptr<PlanFeed> make_planning_feed(DataOrder order, PlanRequest request);

// Replays saved plans. Each is validated, and must hold exactly the sequences that the data order
// gives to its step, for this number of ranks; UserError otherwise.
std::unique_ptr<PlanFeed> make_replay_feed(DataOrder order,
                                           std::vector<std::filesystem::path> files,
                                           std::int32_t num_ranks);
// One plan file, or all *.plan files of a folder in name order. UserError when there is none.
std::vector<std::filesystem::path> list_plan_files(const std::filesystem::path& path);

// Makes the next plan on a thread of its own while the current step runs, so that planning is off
// the critical path; take() waits only for what is not ready. Errors of the feed come out of
// take().
class PlanAhead {
 public:
  PlanAhead(PlanFeed& feed, std::int64_t num_steps);
  StepPlan take();

 private:
  void launch();

  PlanFeed& feed_;
  std::int64_t steps_left_;
  std::future<StepPlan> next_;
};

}  // namespace weft
