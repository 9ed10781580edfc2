#include "cost/memory_model.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace weft {
namespace {

// A layer keeps 2 * (8 + 1) + 2 * (4 + 2) * 2 + 4 + 2 * 10 = 66 elements a token.
MemoryShape small_shape() {
  return {.layer = {.hidden_size = 8,
                    .num_heads = 4,
                    .num_kv_heads = 2,
                    .head_dim = 2,
                    .intermediate_size = 10},
          .num_layers = 5,
          .vocab_size = 100,
          .num_parameters = 1000,
          .element_bytes = 4};
}

TEST(MemoryModel, ARankWithoutTokensHoldsItsStates) {
  const MemoryParts parts = predict_peak(small_shape(), {});
  EXPECT_EQ(parts.parameters, Bytes(4000));
  EXPECT_EQ(parts.gradients, Bytes(4000));
  EXPECT_EQ(parts.moments, Bytes(8000));
  EXPECT_EQ(parts.tensors(), Bytes(16000));
  EXPECT_EQ(parts.moment, "states");
}

TEST(MemoryModel, TheLossMomentByHand) {
  // 7 tokens of which 3 have targets: logits 3 x 100 dominate a vocabulary of 100.
  MemoryShape shape = small_shape();
  shape.vocab_size = 1000;
  const MemoryParts parts = predict_peak(shape, {.tokens = 7, .targets = 3});
  EXPECT_EQ(parts.moment, "loss");
  EXPECT_EQ(parts.batch, Bytes(7 * 32 + 7 * 2 * 4));
  EXPECT_EQ(parts.activations, Bytes(4 * 5 * 7 * 66));
  EXPECT_EQ(parts.layer, Bytes(4 * 7 * 9));  // final input and 1 / rms
  // hidden and d_hidden; a chunk's logits, its hidden and d_hidden; row, target, weight.
  EXPECT_EQ(parts.loss, Bytes(4 * (2 * 7 * 8 + 3 * (1000 + 16)) + 24 * 3));
  EXPECT_EQ(parts.exchange, Bytes(0));
}

TEST(MemoryModel, TheAttentionMomentByHandWithAndWithoutARing) {
  MemoryShape shape = small_shape();
  shape.num_ranks = 2;
  shape.vocab_size = 2;
  const MemoryParts shared = predict_peak(shape, {.tokens = 100, .targets = 0, .ring_rows = 120});
  EXPECT_EQ(shared.moment, "attention");
  // d_out, d_norm2, d_middle; d_gate, d_up; d_q, d_k, d_v; d_attention; delta
  EXPECT_EQ(shared.layer, Bytes(4 * 100 * (3 * 8 + 2 * 10 + (8 + 2 * 4) + 8 + 4)));
  EXPECT_EQ(shared.exchange, Bytes(4 * 5 * 120 * 2 * 4));
  EXPECT_EQ(predict_peak(shape, {.tokens = 100}).exchange, Bytes(0));
}

TEST(MemoryModel, RecomputedActivationsCountForOneLayerOnly) {
  MemoryShape shape = small_shape();
  shape.vocab_size = 2;
  const MicroBatchSize size{.tokens = 100};
  const Bytes all = predict_peak(shape, size).activations;
  EXPECT_EQ(all, Bytes(4 * 100 * 5 * 66));
  shape.recompute = Recompute::kAttention;
  EXPECT_EQ(predict_peak(shape, size).activations, Bytes(4 * 100 * (4 * 38 + 66)));
  shape.recompute = Recompute::kFull;
  EXPECT_EQ(predict_peak(shape, size).activations, Bytes(4 * 100 * (4 * 9 + 66)));
}

TEST(MemoryModel, OffloadLeavesTwoLayersAndAShareOfTheOthers) {
  EXPECT_EQ(resident_layers(1, 1), 1);
  EXPECT_EQ(resident_layers(2, 1), 2);
  EXPECT_EQ(resident_layers(3, 1), 2);
  EXPECT_EQ(resident_layers(10, 0), 10);
  EXPECT_EQ(resident_layers(10, 0.25), 8);
  MemoryShape shape = small_shape();
  const MicroBatchSize kept{.tokens = 100};
  const MicroBatchSize half{.tokens = 100, .offload_ratio = 0.5};
  const Bytes saved = predict_peak(shape, kept).total() - predict_peak(shape, half).total();
  EXPECT_EQ(saved, Bytes(4 * 100 * 66 * 3 / 2));
}

TEST(MemoryModel, WideNumbersTakeTwiceTheMemoryButIdsDoNot) {
  MemoryShape shape = small_shape();
  const MicroBatchSize size{.tokens = 64, .targets = 64};
  const MemoryParts narrow = predict_peak(shape, size);
  shape.element_bytes = 8;
  const MemoryParts wide = predict_peak(shape, size);
  EXPECT_EQ(wide.activations, 2 * narrow.activations);
  EXPECT_EQ(wide.states(), 2 * narrow.states());
  EXPECT_EQ(wide.batch - narrow.batch, Bytes(64 * 2 * 4));
}

TEST(MemoryModel, ChunksOfTheLossTakeAtMost128MiBOrOneRow) {
  EXPECT_EQ(loss_chunk_rows(1, 4), 1024);
  EXPECT_EQ(loss_chunk_rows(32768, 4), 1024);
  EXPECT_EQ(loss_chunk_rows(32769, 4), 1023);
  EXPECT_EQ(loss_chunk_rows(151936, 4), 220);
  EXPECT_EQ(loss_chunk_rows(151936, 8), 110);
  EXPECT_EQ(loss_chunk_rows(std::int64_t{1} << 24, 8), 1);
  EXPECT_EQ(loss_chunk_rows(std::int64_t{1} << 25, 8), 1);
}

TEST(MemoryModel, TheLargestCapacityFitsAndOneTokenMoreDoesNot) {
  MemoryShape shape = small_shape();
  for (const std::int32_t num_ranks : {1, 3}) {
    shape.num_ranks = num_ranks;
    for (const Recompute recompute : {Recompute::kNone, Recompute::kAttention, Recompute::kFull}) {
      shape.recompute = recompute;
      const auto peak = [&](std::int64_t tokens) {
        return predict_peak(shape, largest_micro_batch(shape, Tokens(tokens))).total();
      };
      for (const std::int64_t tokens : {1, 2, 3, 1000, 1023, 1024, 1025, 99999}) {
        ASSERT_LT(peak(tokens), peak(tokens + 1));
        EXPECT_EQ(largest_capacity(shape, peak(tokens), Tokens(1 << 20)), Tokens(tokens));
        EXPECT_EQ(largest_capacity(shape, peak(tokens) + Bytes(1), Tokens(1 << 20)),
                  Tokens(tokens));
        if (tokens == 1) continue;
        EXPECT_EQ(largest_capacity(shape, peak(tokens) - Bytes(1), Tokens(1 << 20)),
                  Tokens(tokens - 1));
      }
      EXPECT_EQ(largest_capacity(shape, peak(1) - Bytes(1), Tokens(1 << 20)), std::nullopt);
      EXPECT_EQ(largest_capacity(shape, Bytes(std::int64_t{1} << 50), Tokens(77)), Tokens(77));
      EXPECT_EQ(largest_capacity(shape, Bytes(std::int64_t{1} << 50), Tokens(0)), std::nullopt);
    }
  }
}

TEST(MemoryModel, MoreOfAnythingNeverTakesLess) {
  const MemoryShape shape = small_shape();
  const auto total = [&](std::int64_t tokens, std::int64_t targets, std::int64_t rows) {
    return predict_peak(shape, {.tokens = tokens, .targets = targets, .ring_rows = rows}).total();
  };
  for (std::int64_t tokens = 10; tokens < 3000; tokens += 7) {
    ASSERT_LE(total(tokens, 5, 5), total(tokens + 1, 5, 5));
    ASSERT_LE(total(tokens, 5, 5), total(tokens, tokens, 5));
    ASSERT_LE(total(tokens, 5, 5), total(tokens, 5, tokens));
  }
}

TEST(MemoryModel, ImpossibleMicroBatchesAreOurBug) {
  EXPECT_THROW(predict_peak(small_shape(), {.tokens = -1}), InternalError);
  EXPECT_THROW(predict_peak(small_shape(), {.tokens = 1, .targets = 2}), InternalError);
  EXPECT_THROW(predict_peak(small_shape(), {.tokens = 1, .offload_ratio = 1.5}), InternalError);
}

TEST(MemoryModel, TheDescriptionNamesEveryPartThatIsThere) {
  MemoryShape shape = small_shape();
  shape.vocab_size = 1000;
  const std::string text = describe_parts(predict_peak(shape, {.tokens = 7, .targets = 3}));
  for (const char* name : {"parameters 3.9 KiB", "gradients", "optimizer 7.8 KiB", "batch",
                           "activations", "loss", "outside tensors 9.0 MiB"}) {
    EXPECT_NE(text.find(name), std::string::npos) << name << " in " << text;
  }
  EXPECT_EQ(text.find("exchange"), std::string::npos) << text;
}

}  // namespace
}  // namespace weft
