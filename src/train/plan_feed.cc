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

  StepPlan next() override {
    request_.sequences = next_sequences(order_);
    StepPlan plan = make_plan(request_);
    ++request_.options.step;
    return plan;
  }

 private:
  DataOrder order_;
  PlanRequest request_;
};

class ReplayFeed final : public PlanFeed {
 public:
  ReplayFeed(DataOrder order, std::vector<std::filesystem::path> files, std::int32_t num_ranks)
      : order_(std::move(order)), files_(std::move(files)), num_ranks_(num_ranks) {}

  StepPlan next() override {
    WEFT_USER_CHECK(position_ < files_.size(),
                    "step {} has no saved plan: {} plans were given; set train.steps to {}",
                    position_, files_.size(), files_.size());
    const auto& file = files_[position_];
    StepPlan plan = load_plan(file);
    validate(plan);
    WEFT_USER_CHECK(plan.num_ranks == num_ranks_,
                    "'{}' was planned for {} ranks, but this run has {}; use --ranks {}",
                    file.string(), plan.num_ranks, num_ranks_, plan.num_ranks);
    WEFT_USER_CHECK(plan.step == static_cast<std::int64_t>(position_),
                    "'{}' holds the plan of step {}, but step {} comes next", file.string(),
                    plan.step, position_);
    WEFT_USER_CHECK(
        plan.sequences == next_sequences(order_),
        "'{}' plans other sequences than the data order gives to step {}; replay it with the "
        "corpus, "
        "data.seed, data.global_batch_tokens and over-long policy that it was made with",
        file.string(), position_);
    ++position_;
    return plan;
  }

 private:
  DataOrder order_;
  std::vector<std::filesystem::path> files_;
  std::int32_t num_ranks_;
  std::size_t position_ = 0;
};

}  // namespace

std::unique_ptr<PlanFeed> make_planning_feed(DataOrder order, PlanRequest request) {
  return std::make_unique<PlanningFeed>(std::move(order), std::move(request));
}

std::unique_ptr<PlanFeed> make_replay_feed(DataOrder order,
                                           std::vector<std::filesystem::path> files,
                                           std::int32_t num_ranks) {
  return std::make_unique<ReplayFeed>(std::move(order), std::move(files), num_ranks);
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

PlanAhead::PlanAhead(PlanFeed& feed, std::int64_t num_steps) : feed_(feed), steps_left_(num_steps) {
  launch();
}

void PlanAhead::launch() {
  if (steps_left_ <= 0) return;
  --steps_left_;
  next_ = std::async(std::launch::async, [this] { return feed_.next(); });
}

StepPlan PlanAhead::take() {
  WEFT_CHECK(next_.valid(), "more plans taken than steps announced");
  StepPlan plan = next_.get();
  launch();
  return plan;
}

}  // namespace weft
