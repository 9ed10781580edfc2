#include "memory/recompute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace weft {
namespace {

TEST(Recompute, NamesAreReadAndOthersRefusedWithTheList) {
  EXPECT_EQ(parse_recompute("none"), Recompute::kNone);
  EXPECT_EQ(parse_recompute("attention"), Recompute::kAttention);
  EXPECT_EQ(parse_recompute("full"), Recompute::kFull);
  try {
    parse_recompute("selective");
    FAIL() << "an unknown mode was read";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("one of none, attention, full, got 'selective'"));
  }
}

// Llama 7B: hidden size 4096, 32 heads of 128, feed-forward 11008.
TEST(Recompute, ElementsOfALargeLayerAreThoseCountedByHand) {
  const LayerSizes sizes{.hidden_size = 4096,
                         .num_heads = 32,
                         .num_kv_heads = 32,
                         .head_dim = 128,
                         .intermediate_size = 11008};
  EXPECT_EQ(saved_elements_per_token(sizes, Recompute::kNone), 2 * 4097 + 4 * 4096 + 32 + 22016);
  EXPECT_EQ(saved_elements_per_token(sizes, Recompute::kAttention), 2 * 4097 + 22016);
  EXPECT_EQ(saved_elements_per_token(sizes, Recompute::kFull), 4097);
}

TEST(Recompute, DropsOnlyWhatItsModeComputesAgain) {
  SavedLayer saved;
  for (at::Tensor* tensor :
       {&saved.input, &saved.input_rstd, &saved.qkv, &saved.attention_out, &saved.attention_lse,
        &saved.middle, &saved.middle_rstd, &saved.gate_up})
    *tensor = at::ones({1});
  drop_recomputed(Recompute::kNone, saved);
  EXPECT_EQ(saved.bytes(), Bytes(8 * 4));
  drop_recomputed(Recompute::kAttention, saved);
  EXPECT_EQ(saved.bytes(), Bytes(5 * 4));
  EXPECT_FALSE(saved.attention_out.defined());
  drop_recomputed(Recompute::kFull, saved);
  EXPECT_EQ(saved.bytes(), Bytes(2 * 4));
  EXPECT_TRUE(saved.input.defined());
}

}  // namespace
}  // namespace weft
