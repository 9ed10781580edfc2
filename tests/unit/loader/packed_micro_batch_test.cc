#include "loader/packed_micro_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/memory_source.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MemorySource;

std::vector<std::int64_t> ids(const at::Tensor& tensor) {
  return {tensor.data_ptr<std::int64_t>(), tensor.data_ptr<std::int64_t>() + tensor.numel()};
}

std::vector<double> weights(const at::Tensor& tensor) {
  return {tensor.data_ptr<double>(), tensor.data_ptr<double>() + tensor.numel()};
}

PlanSlice slice_of(const MemorySource& source, LossWeighting weighting) {
  PlanSlice slice;
  slice.weighting = weighting;
  slice.sequences = source.specs();
  slice.total_weight = total_weight(slice.sequences, weighting);
  return slice;
}

Piece piece(std::int32_t sequence_idx, TokenRange range) {
  return {.sequence_idx = sequence_idx, .group_idx = kNoGroup, .range = range};
}

TEST(PackMicroBatch, ConcatenatesPiecesInPlanOrderWithPositionsOfTheirSequence) {
  MemorySource source;
  source.add(7, MemorySource::document({10, 11, 12, 13}));
  source.add(9, MemorySource::document({20, 21, 22}));
  const PlanSlice slice = slice_of(source, LossWeighting::kToken);
  const MicroBatch micro_batch{.pieces = {piece(1, {0, 3}), piece(0, {3, 4}), piece(0, {0, 1})}};
  const PackedMicroBatch batch = pack_micro_batch(slice, micro_batch, source);
  EXPECT_THAT(ids(batch.tokens), ElementsAre(20, 21, 22, 13, 10));
  EXPECT_THAT(ids(batch.positions), ElementsAre(0, 1, 2, 3, 0));
  EXPECT_THAT(ids(batch.targets), ElementsAre(21, 22, kNoTarget, kNoTarget, 11));
  EXPECT_THAT(weights(batch.target_weights), ElementsAre(0.2, 0.2, 0, 0, 0.2));
  EXPECT_EQ(batch.num_targets, 3);
}

TEST(PackMicroBatch, C010SecondSequenceOfAPackKeepsItsOwnPositionsInEveryZigzagPart) {
  MemorySource source;
  source.add(0, MemorySource::random_document(1, 0, 4, 9));
  source.add(1, MemorySource::random_document(1, 1, 4, 9));
  const PlanSlice slice = slice_of(source, LossWeighting::kToken);
  const MicroBatch first{
      .pieces = {piece(0, {0, 1}), piece(0, {3, 4}), piece(1, {0, 1}), piece(1, {3, 4})}};
  const MicroBatch second{.pieces = {piece(0, {1, 3}), piece(1, {1, 3})}};
  EXPECT_THAT(ids(pack_micro_batch(slice, first, source).positions), ElementsAre(0, 3, 0, 3));
  EXPECT_THAT(ids(pack_micro_batch(slice, second, source).positions), ElementsAre(1, 2, 1, 2));
}

TEST(PackMicroBatch, C011TargetsReachAcrossTheEdgeOfAShard) {
  MemorySource source;
  source.add(0, MemorySource::document({1, 2, 3, 4, 5, 6, 7, 8}));
  const PlanSlice slice = slice_of(source, LossWeighting::kToken);
  const PackedMicroBatch first = pack_micro_batch(slice, {.pieces = {piece(0, {0, 4})}}, source);
  const PackedMicroBatch second = pack_micro_batch(slice, {.pieces = {piece(0, {4, 8})}}, source);
  EXPECT_THAT(ids(first.targets), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(ids(second.targets), ElementsAre(6, 7, 8, kNoTarget));
  EXPECT_EQ(first.num_targets + second.num_targets, 7);
}

TEST(PackMicroBatch, SampleModeGivesEachSequenceTheSameTotalWeight) {
  MemorySource source;
  source.add(0, MemorySource::random_document(1, 0, 100, 9));
  source.add(1, MemorySource::random_document(1, 1, 2, 9));
  const PlanSlice slice = slice_of(source, LossWeighting::kSample);
  const PackedMicroBatch large = pack_micro_batch(slice, {.pieces = {piece(0, {0, 100})}}, source);
  const PackedMicroBatch small = pack_micro_batch(slice, {.pieces = {piece(1, {0, 2})}}, source);
  EXPECT_NEAR(large.target_weights.sum().item<double>(), 0.5, 1e-15);
  EXPECT_THAT(weights(small.target_weights), ElementsAre(0.5, 0));
}

TEST(PackMicroBatch, AStepWithoutTargetsHasNoWeightAndNoNaN) {
  MemorySource source;
  source.add(0, MemorySource::document({3}));
  const PlanSlice slice = slice_of(source, LossWeighting::kToken);
  ASSERT_EQ(slice.total_weight, 0);
  const PackedMicroBatch batch = pack_micro_batch(slice, {.pieces = {piece(0, {0, 1})}}, source);
  EXPECT_EQ(batch.num_targets, 0);
  EXPECT_THAT(weights(batch.target_weights), ElementsAre(0));
}

TEST(PackMicroBatch, AnEmptyMicroBatchHasZeroRows) {
  MemorySource source;
  const PackedMicroBatch batch =
      pack_micro_batch(slice_of(source, LossWeighting::kToken), {}, source);
  EXPECT_EQ(batch.tokens.size(0), 0);
  EXPECT_EQ(batch.target_weights.size(0), 0);
}

TEST(PackMicroBatch, RefusesDataThatIsNotWhatThePlanWasMadeFor) {
  MemorySource source;
  source.add(4, MemorySource::document({1, 2, 3, 4}));
  PlanSlice slice = slice_of(source, LossWeighting::kToken);
  source.add(4, MemorySource::masked(source.at(4), {0, 1}));
  try {
    pack_micro_batch(slice, {.pieces = {piece(0, {0, 4})}}, source);
    FAIL() << "packed a sequence whose targets are not those of the plan";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("sequence 4 have 1 targets, but the plan counts 3"));
  }
  slice.sequences[0].num_targets = 0;
  EXPECT_THROW(pack_micro_batch(slice, {.pieces = {piece(0, {0, 2})}}, source), UserError);
}

}  // namespace
}  // namespace weft
