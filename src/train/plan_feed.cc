#include "train/plan_feed.h"

#include <algorithm>

#include "base/error.h"
#include "plan/plan_codec.h"
#include "plan/validate.h"

namespace weft {
namespace {

std::vector<SequenceSpec> next_sequences(DataOrder& order) {
  std::vector<SequenceSpec> sequences;
  for (const OrderedSequence& sequence : order.next_step()) {
    sequences.push_back(
        {.id = sequence.id, .tokens = sequence.tokens, .num_targets = sequence.num_targets});
  }
  sort_canonically(sequences);
  return sequences;
}

class PlanningFeed final : public PlanFeed {
 public:
  PlanningFeed(DataOrder order, PlanRequest request)
      : order_(std::move(order)), request_(std::move(request)) {}

  FedPlan next() override {
    request_.sequences = next_sequences(order_);
    StepPlan plan = make_plan(request_);
    ++request_.options.step;
    return {std::move(plan), order_.num_dropped_sequences(), order_.state()};
  }

 private:
  DataOrder order_;
  PlanRequest request_;
};

class ReplayFeed final : public PlanFeed {
 public:
  ReplayFeed(DataOrder order, ReplayOptions options)
      : order_(std::move(order)),
        options_(std::move(options)),
        position_(static_cast<std::size_t>(options_.first_step)) {}

  FedPlan next() override {
    const std::size_t num_plans = options_.files.size();
    WEFT_USER_CHECK(position_ < num_plans,
                    "step {} has no saved plan: {} plans were given; set train.steps to {}",
                    position_, num_plans, num_plans);
    StepPlan plan = load_plan(options_.files[position_]);
    check(plan, options_.files[position_].string());
    ++position_;
    return {std::move(plan), order_.num_dropped_sequences(), order_.state()};
  }

 private:
  void check(const StepPlan& plan, const std::string& file) {
    WEFT_USER_CHECK(plan.num_ranks == options_.num_ranks,
                    "'{}' was planned for {} ranks, but this run has {}; use --ranks {}", file,
                    plan.num_ranks, options_.num_ranks, plan.num_ranks);
    WEFT_USER_CHECK(plan.step == static_cast<std::int64_t>(position_),
                    "'{}' holds the plan of step {}, but step {} comes next", file, plan.step,
                    position_);
    WEFT_USER_CHECK(plan.weighting == options_.weighting,
                    "'{}' weighs the loss by {}, but data.weighting is {}; set it to {}", file,
                    to_string(plan.weighting), to_string(options_.weighting),
                    to_string(plan.weighting));
    WEFT_USER_CHECK(
        plan.sequences == next_sequences(order_),
        "'{}' plans other sequences than the data order gives to step {}; replay it "
        "with the corpus, data.seed, data.global_batch_tokens and over-long policy that "
        "it was made with",
        file, position_);
  }

  DataOrder order_;
  ReplayOptions options_;
  std::size_t position_;  // the next step
};

}  // namespace

std::unique_ptr<PlanFeed> make_planning_feed(DataOrder order, PlanRequest request) {
  return std::make_unique<PlanningFeed>(std::move(order), std::move(request));
}

std::unique_ptr<PlanFeed> make_replay_feed(DataOrder order, ReplayOptions options) {
  return std::make_unique<ReplayFeed>(std::move(order), std::move(options));
}

std::vector<std::filesystem::path> list_plan_files(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) {
    WEFT_USER_CHECK(std::filesystem::exists(path), "no plan file or folder '{}'", path.string());
    return {path};
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.path().extension() == ".plan") files.push_back(entry.path());
  }
  WEFT_USER_CHECK(!files.empty(), "'{}' holds no *.plan file", path.string());
  std::sort(files.begin(), files.end());
  return files;
}

void check_runnable(const StepPlan& plan, std::int32_t num_ranks, std::int32_t offload_layers) {
  validate(plan);
  WEFT_USER_CHECK(plan.num_ranks == num_ranks,
                  "the plan of step {} is for {} ranks, this run has {}", plan.step, plan.num_ranks,
                  num_ranks);
  WEFT_USER_CHECK(
      plan.pipeline_stages == 1,
      "the plan of step {} is for pipelines of {} stages; this build runs all layers of "
      "a rank on one device; plan again without --pipeline-stages",
      plan.step, plan.pipeline_stages);
  double ratio = 0;
  for (const auto& micro_batches : plan.ranks) {
    for (const MicroBatch& micro_batch : micro_batches)
      ratio = std::max(ratio, micro_batch.offload_ratio);
  }
  if (ratio == 0) return;
  WEFT_USER_CHECK(
      offload_layers > 0,
      "the plan of step {} offloads {} of a micro-batch's activations, but memory.offload is "
      "\"none\", so its capacity would be exceeded; set memory.offload = \"disk\", or plan again "
      "without --offload",
      plan.step, ratio);
  WEFT_USER_CHECK(plan.num_layers == offload_layers,
                  "the plan of step {} offloads activations of {} layers, but the model has {}, so "
                  "its capacity would not be kept; plan again with a cost file of this model",
                  plan.step, plan.num_layers, offload_layers);
}

}  // namespace weft
