#include "train/plan_ahead.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"
#include "plan/plan_codec.h"

namespace weft {
namespace {

// Plans one sequence of `step + 1` tokens; the step `fails_at` throws.
class CountingFeed final : public PlanFeed {
 public:
  explicit CountingFeed(std::int64_t fails_at = -1) : fails_at_(fails_at) {}

  FedPlan next() override {
    const std::int64_t step = num_plans_;
    if (step == fails_at_) throw_user_error("step {} cannot be planned", step);
    PlanRequest request;
    request.cluster.num_ranks = 2;
    request.options.capacity = Tokens(64);
    request.options.step = step;
    request.sequences = {{.id = step, .tokens = Tokens(step + 1), .num_targets = step}};
    ++num_plans_;
    return {make_plan(request), 0, {}};
  }

  std::int64_t num_plans() const { return num_plans_; }

 private:
  std::int64_t fails_at_;
  std::atomic<std::int64_t> num_plans_ = 0;
};

PlanAheadOptions options_of(std::int64_t num_steps, std::int64_t depth) {
  return {.num_ranks = 2, .num_steps = num_steps, .depth = depth};
}

void wait_for_plans(const CountingFeed& feed, std::int64_t num_plans) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (feed.num_plans() < num_plans && std::chrono::steady_clock::now() < give_up)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST(PlanAhead, GivesEveryStepInOrderAtEveryDepth) {
  for (const std::int64_t depth : {1, 2, 3, 7, 30}) {
    for (const std::int64_t num_steps : {0, 1, 2, 7, 8}) {
      CountingFeed feed;
      PlanAhead plans(feed, options_of(num_steps, depth));
      for (std::int64_t step = 0; step < num_steps; ++step) {
        const PreparedStep prepared = plans.take();
        ASSERT_EQ(prepared.fed.plan.step, step);
        ASSERT_EQ(prepared.hash, plan_hash(prepared.fed.plan));
        ASSERT_EQ(prepared.slices.size(), 2U);
      }
      EXPECT_EQ(feed.num_plans(), num_steps);
    }
  }
}

TEST(PlanAhead, PlansNoFurtherAheadThanItsDepth) {
  CountingFeed feed;
  PlanAhead plans(feed, options_of(100, 3));
  wait_for_plans(feed, 3);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(feed.num_plans(), 3);
  plans.take();
  wait_for_plans(feed, 4);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(feed.num_plans(), 4);
}

TEST(PlanAhead, AnErrorComesOutAtItsStepAndAgainAfterIt) {
  CountingFeed feed(2);
  PlanAhead plans(feed, options_of(5, 4));
  EXPECT_EQ(plans.take().fed.plan.step, 0);
  EXPECT_EQ(plans.take().fed.plan.step, 1);
  EXPECT_THROW(plans.take(), UserError);
  EXPECT_THROW(plans.take(), UserError);
}

TEST(PlanAhead, RefusesMoreStepsThanAnnouncedAndADepthOfZero) {
  CountingFeed feed;
  PlanAhead plans(feed, options_of(1, 1));
  plans.take();
  EXPECT_THROW(plans.take(), InternalError);
  EXPECT_THROW(PlanAhead(feed, options_of(1, 0)), InternalError);
}

// Step k has one sequence of k + 1 tokens, on one of two ranks.
TEST(PlanAhead, FetchesMemoryForTheLargeTensorsOfItsOwnRanksBeforeTheStep) {
  constexpr std::int64_t kSteps = 40;
  constexpr std::int64_t kHidden = 4096;  // 16 tokens in float32 are 256 KiB
  MemoryBudget memory;
  memory.shape = {.layer = {.hidden_size = kHidden}, .num_ranks = 2};
  for (const std::int32_t ranks_here : {0, 2}) {
    CountingFeed feed;
    std::mutex mutex;
    std::vector<Bytes> reserved;
    PlanAhead plans(feed, {.num_ranks = 2,
                           .num_steps = kSteps,
                           .depth = 1,
                           .memory = memory,
                           .ranks_here = ranks_here,
                           .reserve = [&](Bytes bytes, const std::function<bool()>&) {
                             const std::lock_guard lock(mutex);
                             reserved.push_back(bytes);
                           }});
    for (std::int64_t step = 0; step < kSteps; ++step) {
      const PreparedStep prepared = plans.take();
      const std::int64_t tokens = step + 1;
      const MicroBatchSize size{.tokens = tokens, .targets = step};
      const std::lock_guard lock(mutex);
      const bool is_large = ranks_here == 2 && tokens >= 16;
      ASSERT_GT(reserved.size(), static_cast<std::size_t>(step)) << "before the step is given";
      EXPECT_EQ(reserved[static_cast<std::size_t>(step)],
                is_large ? predict_peak(memory.shape, size).tensors() : Bytes(0))
          << tokens << " tokens";
      EXPECT_EQ(prepared.large_blocks, reserved[static_cast<std::size_t>(step)]);
    }
  }
}

TEST(PlanAhead, DoesNotWaitForMemoryThatNobodyWantsAnyMore) {
  CountingFeed feed;
  PlanAheadOptions options = options_of(10, 2);
  options.reserve = [](Bytes, const std::function<bool()>& is_wanted) {
    while (is_wanted()) std::this_thread::yield();
  };
  PlanAhead plans(feed, options);  // its end would wait for ever
}

TEST(PlanAhead, EndsWithPlansLeftUntaken) {
  for (int i = 0; i < 50; ++i) {
    CountingFeed feed;
    PlanAhead plans(feed, options_of(1000, i % 5 + 1));
    if (i % 2 == 1) plans.take();
  }
}

}  // namespace
}  // namespace weft
