#include "train/memory_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

TrainConfig example(Bytes budget, Tokens capacity) {
  TrainConfig config;
  config.model = {.vocab_size = 1000,
                  .hidden_size = 64,
                  .num_layers = 8,
                  .num_heads = 4,
                  .num_kv_heads = 4,
                  .head_dim = 16,
                  .intermediate_size = 200};
  config.data.global_batch_tokens = Tokens(10'000);
  config.plan.capacity = capacity;
  config.memory.budget_bytes = budget;
  config.train.ranks = 2;
  return config;
}

Tokens settle(const TrainConfig& config, Tokens longest = Tokens(100)) {
  return settle_capacity(config, memory_budget(config, 1), longest);
}

Bytes peak_of(TrainConfig config, std::int64_t capacity) {
  config.plan.capacity = Tokens(capacity);
  return predict_largest(config, memory_budget(config, 1)).total();
}

std::string refusal(const TrainConfig& config, Tokens longest = Tokens(100)) {
  try {
    settle(config, longest);
  } catch (const UserError& error) {
    return error.what();
  }
  return "not refused";
}

TEST(MemoryBudget, WithoutABudgetCapacityIsWhatIsAskedOr4096) {
  EXPECT_EQ(settle(example(Bytes(0), Tokens(77))), Tokens(77));
  EXPECT_EQ(settle(example(Bytes(0), Tokens(0))), kUnbudgetedCapacity);
}

TEST(MemoryBudget, CapacityZeroIsTheLargestThatFits) {
  for (const std::int64_t tokens : {1, 2, 777, 4097}) {
    TrainConfig config = example(Bytes(1), Tokens(0));
    config.memory.budget_bytes = peak_of(config, tokens);
    EXPECT_EQ(settle(config), Tokens(tokens));
    config.memory.budget_bytes -= Bytes(1);
    if (tokens > 1) {
      EXPECT_EQ(settle(config), Tokens(tokens - 1));
    }
  }
}

TEST(MemoryBudget, NoCapacityIsChosenBeyondWhatAStepHolds) {
  EXPECT_EQ(settle(example(Bytes(std::int64_t{1} << 40), Tokens(0))), Tokens(10'000));
}

TEST(MemoryBudget, ACapacityThatIsGivenCountsAtMostWhatAStepHolds) {
  TrainConfig config = example(Bytes(1), Tokens(1 << 30));
  config.memory.budget_bytes = peak_of(config, 10'000);
  EXPECT_EQ(settle(config), Tokens(1 << 30));
}

TEST(MemoryBudget, ACapacityThatDoesNotFitIsRefusedWithWhatWould) {
  TrainConfig config = example(Bytes(1), Tokens(2000));
  config.memory.budget_bytes = peak_of(config, 1234);
  const std::string text = refusal(config);
  EXPECT_THAT(text, HasSubstr("plan.capacity 2000"));
  EXPECT_THAT(text, HasSubstr(format_bytes(config.memory.budget_bytes)));
  EXPECT_THAT(text, HasSubstr(format_bytes(peak_of(config, 2000))));
  EXPECT_THAT(text, HasSubstr("activations"));
  EXPECT_THAT(text, HasSubstr("plan.capacity up to 1234 with memory.recompute = \"none\""));
  // What it proposes is accepted.
  for (const char* mode : {"none", "attention", "full"}) {
    TrainConfig other = config;
    other.memory.recompute = mode;
    other.plan.capacity = Tokens(0);
    const Tokens capacity = settle(other);
    EXPECT_THAT(text, HasSubstr(fmt::format("plan.capacity up to {} with memory.recompute = \"{}\"",
                                            capacity, mode)));
    other.plan.capacity = capacity;
    EXPECT_EQ(settle(other), capacity);
    other.plan.capacity += Tokens(1);
    EXPECT_NE(refusal(other), "not refused");
  }
}

TEST(MemoryBudget, ModesThatKeepMoreAreNotProposed) {
  TrainConfig config = example(Bytes(1), Tokens(5000));
  config.memory.recompute = "full";
  config.memory.budget_bytes = peak_of(config, 1000);
  const std::string text = refusal(config);
  EXPECT_THAT(text, HasSubstr("plan.capacity up to 1000 with memory.recompute = \"full\""));
  EXPECT_EQ(text.find("\"none\""), std::string::npos) << text;
}

TEST(MemoryBudget, ProposalsSayHowManyRanksTheLongestSequenceNeeds) {
  TrainConfig config = example(Bytes(1), Tokens(3000));
  config.memory.budget_bytes = peak_of(config, 1000);
  EXPECT_THAT(
      refusal(config, Tokens(5500)),
      HasSubstr("plan.capacity up to 1000 with memory.recompute = \"none\", and 6 ranks for "
                "the longest sequence of 5500 tokens"));
}

TEST(MemoryBudget, AModelThatNeverFitsIsRefusedWithTheLeastBudget) {
  TrainConfig config = example(Bytes(1'000'000), Tokens(0));
  const std::string text = refusal(config);
  EXPECT_THAT(text, HasSubstr("one token takes"));
  TrainConfig enough = config;
  enough.memory.recompute = "full";
  enough.memory.budget_bytes = peak_of(enough, 1);
  EXPECT_THAT(text, HasSubstr(fmt::format("memory.budget_bytes of at least {} with",
                                          enough.memory.budget_bytes)));
  EXPECT_EQ(settle(enough), Tokens(1));
}

TEST(MemoryBudget, WideNumbersAreCounted) {
  TrainConfig config = example(Bytes(0), Tokens(100));
  EXPECT_EQ(memory_budget(config, 3).shape.element_bytes, 4);
  EXPECT_EQ(memory_budget(config, 3).shape.threads_per_rank, 3);
  config.train.dtype = "float64";
  EXPECT_EQ(memory_budget(config, 3).shape.element_bytes, 8);
}

}  // namespace
}  // namespace weft
