// PlanFeed: where each step's plan comes from: the data order and a planner, or plans saved
// earlier.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "corpus/data_order.h"
#include "plan/planner.h"

namespace weft {

struct FedPlan {
  StepPlan plan;
  std::int64_t dropped_sequences = 0;  // by data.tail = "drop", since the feed was made
  DataOrderState reader;               // after this step's sequences were taken
};

// A seam: tests feed plans of their own. Called by one thread at a time, in step order.
class PlanFeed {
 public:
  virtual ~PlanFeed() = default;
  virtual FedPlan next() = 0;
};

// Takes the next sequences of the data order and plans them. `request` holds everything but
// sequences and step.
std::unique_ptr<PlanFeed> make_planning_feed(DataOrder order, PlanRequest request);

// Replays saved plans from step `first_step` on. Each is validated, and must hold exactly the
// sequences that the data order gives to its step, for these ranks and this weighting; UserError
// otherwise. Strategy and capacity are the plan's own.
struct ReplayOptions {
  std::vector<std::filesystem::path> files;  // of step 0, 1, ...
  std::int32_t num_ranks = 1;
  LossWeighting weighting = LossWeighting::kToken;
  std::int64_t first_step = 0;
};
std::unique_ptr<PlanFeed> make_replay_feed(DataOrder order, ReplayOptions options);
// One plan file, or all *.plan files of a folder in name order. UserError when there is none.
std::vector<std::filesystem::path> list_plan_files(const std::filesystem::path& path);

// Validates; UserError also for what this executor does not do: another number of ranks, pipelines,
// or an offload ratio above 0 where nothing can be offloaded (offload_layers 0) or the plan is for
// another number of layers.
void check_runnable(const StepPlan& plan, std::int32_t num_ranks, std::int32_t offload_layers);

}  // namespace weft
