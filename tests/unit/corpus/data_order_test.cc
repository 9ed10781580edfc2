#include "corpus/data_order.h"

#include <numeric>
#include <set>

#include "unit/corpus/corpus_fixture.h"

namespace weft {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class DataOrderTest : public CorpusTest {
 protected:
  // A corpus of random lengths in [2, longest], fresh per call.
  const SequenceSet& random_set(std::uint64_t seed, std::size_t size, std::uint64_t longest) {
    const RandomStream random(seed, "lengths");
    std::vector<std::int64_t> lengths;
    for (std::size_t i = 0; i < size; ++i)
      lengths.push_back(2 + static_cast<std::int64_t>(random.below(i, longest - 1)));
    return set_of(lengths);
  }
  const SequenceSet& set_of(const std::vector<std::int64_t>& lengths) {
    corpora_.push_back(
        std::make_unique<Corpus>(corpus_of_lengths(fmt::format("c{}", corpora_.size()), lengths)));
    sets_.push_back(
        std::make_unique<SequenceSet>(*corpora_.back(), Tokens(1 << 20), OverLong::kError));
    return *sets_.back();
  }

 private:
  std::vector<std::unique_ptr<Corpus>> corpora_;
  std::vector<std::unique_ptr<SequenceSet>> sets_;
};

std::int64_t tokens_in(const std::vector<OrderedSequence>& step) {
  std::int64_t tokens = 0;
  for (const auto& sequence : step) tokens += sequence.tokens.value();
  return tokens;
}

TEST_F(DataOrderTest, EachSequenceComesOncePerEpochAndStepsAreFull) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const SequenceSet& set = random_set(seed, 5 + 40 * seed, 60);
    const Tokens batch(60 + 37 * static_cast<std::int64_t>(seed));
    DataOrder order(set, {seed, batch, EpochTail::kCarry});
    std::vector<OrderedSequence> stream;
    std::int64_t last_step_tokens = 0;
    while (order.state().epoch < 4) {
      const auto step = order.next_step();
      ASSERT_FALSE(step.empty());
      EXPECT_LE(tokens_in(step), batch.value());
      if (!stream.empty()) {
        EXPECT_GT(last_step_tokens + step[0].tokens.value(), batch.value()) << "a step ended early";
      }
      last_step_tokens = tokens_in(step);
      stream.insert(stream.end(), step.begin(), step.end());
    }
    for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
      std::set<std::int64_t> ids;
      bool is_shuffled = false;
      for (std::int64_t i = 0; i < set.size(); ++i) {
        const OrderedSequence& sequence = stream[static_cast<std::size_t>(epoch * set.size() + i)];
        EXPECT_EQ(sequence.id / set.size(), epoch);
        const SequenceInfo info = set.sequence(sequence.id % set.size());
        EXPECT_EQ(sequence.tokens, info.tokens());
        EXPECT_EQ(sequence.num_targets, info.num_targets);
        is_shuffled = is_shuffled || sequence.id % set.size() != i;
        ids.insert(sequence.id);
      }
      EXPECT_EQ(static_cast<std::int64_t>(ids.size()), set.size());
      EXPECT_TRUE(is_shuffled);
    }
  }
}

TEST_F(DataOrderTest, EpochsAndSeedsHaveDifferentOrdersAndEqualSeedsEqualOnes) {
  const SequenceSet& set = set_of(std::vector<std::int64_t>(200, 2));
  const auto epoch_order = [&](std::uint64_t seed, std::int64_t epoch) {
    DataOrder order(set, {seed, Tokens(400), EpochTail::kCarry});
    order.set_state({seed, epoch, 0});
    std::vector<std::int64_t> indices;
    for (const auto& sequence : order.next_step()) indices.push_back(sequence.id % set.size());
    return indices;
  };
  EXPECT_EQ(epoch_order(3, 2), epoch_order(3, 2));
  EXPECT_NE(epoch_order(3, 2), epoch_order(3, 1));
  EXPECT_NE(epoch_order(3, 2), epoch_order(4, 2));
}

TEST_F(DataOrderTest, ResumingAtAnyStepGivesTheUninterruptedOrder) {  // C070
  for (const EpochTail tail : {EpochTail::kCarry, EpochTail::kDrop}) {
    const SequenceSet& set = random_set(11, 53, 40);
    const DataOrderOptions options{9, Tokens(150), tail};
    DataOrder uninterrupted(set, options);
    std::vector<DataOrderState> states;
    std::vector<std::vector<OrderedSequence>> steps;
    while (uninterrupted.state().epoch < 3) {
      states.push_back(uninterrupted.state());
      steps.push_back(uninterrupted.next_step());
    }
    for (std::size_t at = 0; at < steps.size(); ++at) {
      DataOrder resumed(set, {0, options.global_batch_tokens, tail});  // the state brings the seed
      resumed.set_state(states[at]);
      for (std::size_t i = at; i < std::min(at + 20, steps.size()); ++i) {
        EXPECT_EQ(resumed.state(), states[i]);
        ASSERT_EQ(resumed.next_step(), steps[i]) << "resumed at step " << at << ", step " << i;
      }
    }
  }
}

TEST_F(DataOrderTest, ACopyReadsAheadWithoutMovingTheOriginal) {
  const SequenceSet& set = random_set(2, 30, 20);
  DataOrder order(set, {1, Tokens(64), EpochTail::kCarry});
  DataOrder ahead = order;
  std::vector<std::vector<OrderedSequence>> seen;
  for (int i = 0; i < 40; ++i) seen.push_back(ahead.next_step());
  for (const auto& step : seen) EXPECT_EQ(order.next_step(), step);
}

TEST_F(DataOrderTest, ACorpusSmallerThanABatchFillsAStepFromSeveralEpochsWithUniqueIds) {
  const SequenceSet& set = set_of({3, 2, 4});
  DataOrder order(set, {5, Tokens(31), EpochTail::kCarry});
  EXPECT_EQ(order.steps_in_first_epoch(), 1);
  for (int i = 0; i < 20; ++i) {
    const auto step = order.next_step();
    std::set<std::int64_t> ids;
    for (const auto& sequence : step) ids.insert(sequence.id);
    EXPECT_EQ(ids.size(), step.size());
    EXPECT_GE(step.size(), 9u);
    EXPECT_GT(tokens_in(step), 31 - 4);
  }
}

TEST_F(DataOrderTest, OneSequenceAloneIsACorpus) {
  const SequenceSet& set = set_of({7});
  for (const std::int64_t batch : {7, 8, 13, 14, 15}) {
    DataOrder order(set, {5, Tokens(batch), EpochTail::kCarry});
    const auto step = order.next_step();
    EXPECT_EQ(static_cast<std::int64_t>(step.size()), batch / 7);
    EXPECT_EQ(order.state(), (DataOrderState{5, batch / 7, 0}));
  }
}

TEST_F(DataOrderTest, DroppedTailsAreCountedAndStepsNeverCrossAnEpoch) {  // C062
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const SequenceSet& set = random_set(seed, 40, 30);
    DataOrder order(set, {seed, Tokens(100), EpochTail::kDrop});
    std::int64_t taken = 0;
    std::int64_t steps_in_epoch_0 = 0;
    while (order.state().epoch < 3) {
      const auto step = order.next_step();
      EXPECT_EQ(step.front().id / set.size(), step.back().id / set.size());
      if (step.front().id / set.size() == 0) ++steps_in_epoch_0;
      taken += static_cast<std::int64_t>(step.size());
    }
    // Whatever the epochs that are behind us did not give to steps was dropped.
    EXPECT_EQ(taken + order.num_dropped_sequences(),
              order.state().epoch * set.size() + order.state().position);
    EXPECT_EQ(steps_in_epoch_0,
              DataOrder(set, {seed, Tokens(100), EpochTail::kDrop}).steps_in_first_epoch());
  }
}

TEST_F(DataOrderTest, AnExactlyFullLastStepIsNoTail) {
  const SequenceSet& set = set_of(std::vector<std::int64_t>(10, 4));
  DataOrder order(set, {1, Tokens(20), EpochTail::kDrop});
  EXPECT_EQ(order.steps_in_first_epoch(), 2);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(order.next_step().size(), 5u);
  EXPECT_EQ(order.state(), (DataOrderState{1, 3, 0}));
  EXPECT_EQ(order.num_dropped_sequences(), 0);
}

TEST_F(DataOrderTest, StepsInTheFirstEpochAreCountedExactly) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const SequenceSet& set = random_set(seed, 60, 50);
    DataOrder order(set, {seed, Tokens(120), EpochTail::kCarry});
    std::int64_t steps = 0;
    while (order.next_step().front().id < set.size()) ++steps;
    EXPECT_EQ(DataOrder(set, {seed, Tokens(120), EpochTail::kCarry}).steps_in_first_epoch(), steps)
        << "seed " << seed;
  }
}

TEST_F(DataOrderTest, WhatNoStepCanHoldIsRefusedUpFront) {
  const SequenceSet& set = set_of({3, 90, 5});
  EXPECT_THAT(user_error_of([&] { DataOrder(set, {1, Tokens(89), EpochTail::kCarry}); }),
              AllOf(HasSubstr("sequence 1 (document 1"), HasSubstr("90 tokens"),
                    HasSubstr("global_batch_tokens is 89")));
  EXPECT_THAT(user_error_of([&] { DataOrder(set, {1, Tokens(99), EpochTail::kDrop}); }),
              AllOf(HasSubstr("98 tokens"), HasSubstr("tail = carry")));
  EXPECT_EQ(DataOrder(set, {1, Tokens(98), EpochTail::kDrop}).next_step().size(), 3u);
  EXPECT_THAT(user_error_of([&] { DataOrder(set, {1, Tokens(0), EpochTail::kCarry}); }),
              HasSubstr("at least 1 token"));
}

TEST_F(DataOrderTest, AStateOfAnotherCorpusIsRefused) {
  const SequenceSet& set = set_of({3, 4, 5});
  DataOrder order(set, {1, Tokens(8), EpochTail::kCarry});
  for (const DataOrderState& state :
       {DataOrderState{1, 0, 3}, DataOrderState{1, 0, -1}, DataOrderState{1, -1, 0},
        DataOrderState{1, std::numeric_limits<std::int64_t>::max() / 2, 0}}) {
    EXPECT_THAT(user_error_of([&] { order.set_state(state); }), HasSubstr("cannot resume"));
  }
  EXPECT_EQ(order.state(), (DataOrderState{1, 0, 0}));
}

TEST(EpochTailTest, PoliciesAreReadByNameAndOthersRefused) {
  EXPECT_EQ(parse_epoch_tail("carry", "x"), EpochTail::kCarry);
  EXPECT_EQ(parse_epoch_tail(to_string(EpochTail::kDrop), "x"), EpochTail::kDrop);
  EXPECT_THAT(user_error_of([] { parse_epoch_tail("keep", "data.tail"); }),
              AllOf(HasSubstr("data.tail"), HasSubstr("keep")));
}

}  // namespace
}  // namespace weft
