#include "memory/saved_layer.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "memory/counting_allocator.h"

namespace weft {
namespace {

SavedLayer saved_with_q(std::int64_t rows) {
  SavedLayer saved;
  saved.q = at::ones({rows, 2, 4});
  return saved;
}

TEST(SavedLayers, GivesBackEachLayerOnceAndFreesItWithTheValue) {
  install_counting_allocator();
  AllocationCounter counter;
  SavedLayers layers(3);
  {
    const AllocationScope scope(counter);
    for (std::int64_t i = 0; i < 3; ++i) layers.put(i, saved_with_q(10 * (i + 1)));
  }
  EXPECT_EQ(counter.live(), Bytes(60 * 8 * 4));
  for (std::int64_t i = 2; i >= 0; --i) {
    const SavedLayer saved = layers.take(i);
    EXPECT_EQ(saved.q.size(0), 10 * (i + 1));
    EXPECT_EQ(saved.bytes(), Bytes(10 * (i + 1) * 8 * 4));
  }
  EXPECT_EQ(counter.live(), 0_B);
}

TEST(SavedLayers, ALayerSavedTwiceOrTakenTwiceIsABug) {
  SavedLayers layers(1);
  EXPECT_THROW(layers.take(0), InternalError);
  layers.put(0, saved_with_q(1));
  EXPECT_THROW(layers.put(0, saved_with_q(1)), InternalError);
  layers.take(0);
  EXPECT_THROW(layers.take(0), InternalError);
}

}  // namespace
}  // namespace weft
