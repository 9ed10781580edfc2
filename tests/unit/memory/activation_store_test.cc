#include "memory/activation_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "memory/counting_allocator.h"
#include "tests/support/offload_tiers.h"

namespace weft {
namespace {

using testing::FailingTier;
using testing::LateTier;
using testing::MapTier;

SavedLayer saved_with_qkv(std::int64_t rows) {
  SavedLayer saved;
  saved.qkv = at::ones({rows, 8});
  return saved;
}

// Every tensor of a layer with its own numbers; views and shared memory among them.
SavedLayer random_layer(std::int64_t rows, std::int64_t seed, at::ScalarType dtype = at::kFloat) {
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(seed));
  const auto fresh = [&](at::IntArrayRef sizes) {
    return at::randn(sizes, generator, at::TensorOptions(dtype));
  };
  SavedLayer saved;
  saved.input = fresh({rows, 24});
  saved.input_rstd = fresh({rows, 1});
  const at::Tensor shared = fresh({rows, 48});
  saved.qkv = shared.narrow(1, 0, 32);
  saved.attention_out = shared.narrow(1, 32, 16).view({rows, 4, 4});
  saved.attention_lse = fresh({rows, 4}).t();  // [H, T], not contiguous
  saved.middle = fresh({rows, 24});
  saved.middle_rstd = fresh({rows, 1});
  saved.gate_up = fresh({rows, 80});
  return saved;
}

void expect_same(SavedLayer actual, SavedLayer expected) {
  const auto actual_tensors = actual.tensors(), expected_tensors = expected.tensors();
  for (std::size_t i = 0; i < SavedLayer::kNumTensors; ++i) {
    ASSERT_EQ(actual_tensors[i]->defined(), expected_tensors[i]->defined()) << "tensor " << i;
    if (!actual_tensors[i]->defined()) continue;
    EXPECT_EQ(actual_tensors[i]->sizes(), expected_tensors[i]->sizes()) << "tensor " << i;
    EXPECT_TRUE(at::equal(*actual_tensors[i], *expected_tensors[i])) << "tensor " << i;
  }
}

// Writes over every free block that tensors of these sizes could get.
void poison_free_memory(std::int64_t rows) {
  std::vector<at::Tensor> poison;
  for (int i = 0; i < 12; ++i)
    for (const std::int64_t columns : {1, 4, 16, 24, 32, 48, 80})
      poison.push_back(at::full({rows, columns}, std::nan("")));
}

TEST(ActivationStore, GivesBackEachLayerOnceAndFreesItWithTheValue) {
  install_counting_allocator();
  AllocationCounter counter;
  ActivationStore layers(3);
  {
    const AllocationScope scope(counter);
    for (std::int64_t i = 0; i < 3; ++i) layers.put(i, saved_with_qkv(10 * (i + 1)));
  }
  EXPECT_EQ(counter.live(), Bytes(60 * 8 * 4));
  for (std::int64_t i = 2; i >= 0; --i) {
    const SavedLayer saved = layers.take(i);
    EXPECT_EQ(saved.qkv.size(0), 10 * (i + 1));
    EXPECT_EQ(saved.bytes(), Bytes(10 * (i + 1) * 8 * 4));
  }
  EXPECT_EQ(counter.live(), 0_B);
}

TEST(ActivationStore, ALayerSavedTwiceOrTakenTwiceIsABug) {
  MapTier tier;
  for (const Offload& offload : {Offload{}, Offload{.tier = &tier, .ratio = 1}}) {
    ActivationStore layers(3, offload);
    EXPECT_THROW(layers.take(0), InternalError);
    layers.put(0, saved_with_qkv(1));
    EXPECT_THROW(layers.put(0, saved_with_qkv(1)), InternalError);
    layers.take(0);
    EXPECT_THROW(layers.take(0), InternalError);
  }
}

TEST(ActivationStore, ARatioWithoutATierOrOutsideZeroToOneIsABug) {
  MapTier tier;
  EXPECT_THROW(ActivationStore(3, {.tier = nullptr, .ratio = 0.5}), InternalError);
  EXPECT_THROW(ActivationStore(3, {.tier = &tier, .ratio = 1.5}), InternalError);
  EXPECT_THROW(ActivationStore(3, {.tier = &tier, .ratio = -0.1}), InternalError);
  EXPECT_THROW(ActivationStore(3, {.tier = &tier, .ratio = std::nan("")}), InternalError);
}

TEST(ActivationStore, WhatComesBackIsWhatWasPutForEveryRatioNumberOfLayersAndDtype) {
  for (const std::int64_t num_layers : {1, 2, 3, 4, 5, 8}) {
    for (const double ratio : {0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0}) {
      for (const std::int64_t rows : {1, 2, 3, 7, 200}) {
        SCOPED_TRACE(fmt::format("{} layers, ratio {}, {} rows", num_layers, ratio, rows));
        const at::ScalarType dtype = num_layers % 2 == 0 ? at::kFloat : at::kDouble;
        MapTier tier;
        OffloadMeasures measures;
        {
          ActivationStore store(num_layers, {.tier = &tier, .ratio = ratio, .measures = &measures});
          for (std::int64_t i = 0; i < num_layers; ++i) store.put(i, random_layer(rows, i, dtype));
          for (std::int64_t i = num_layers; i-- > 0;)
            expect_same(store.take(i), random_layer(rows, i, dtype));
        }
        EXPECT_TRUE(tier.empty());
        EXPECT_EQ(measures.bytes, Bytes(tier.bytes_written()));
        EXPECT_EQ(tier.bytes_written() > 0, num_layers > 2 && ratio > 0);
      }
    }
  }
}

// Bytes are counted by the allocator: of the formula's saving, at least nine tenths; and what stays
// at the end of forward is never more than the formula says.
TEST(ActivationStore, MemoryAfterForwardIsWhatTheFormulaSays) {
  install_counting_allocator();
  constexpr std::int64_t kRows = 3000;
  const double layer_bytes = static_cast<double>(random_layer(kRows, 0).bytes().value());
  for (const std::int64_t num_layers : {3, 4, 5, 12}) {
    for (const double ratio : {0.25, 0.5, 0.75, 1.0}) {
      SCOPED_TRACE(fmt::format("{} layers, ratio {}", num_layers, ratio));
      MapTier tier;
      AllocationCounter counter;
      const AllocationScope scope(counter);
      ActivationStore store(num_layers, {.tier = &tier, .ratio = ratio});
      for (std::int64_t i = 0; i < num_layers; ++i) store.put(i, random_layer(kRows, i));
      const auto layers = static_cast<double>(num_layers);
      const double saved = ratio * (layers - 2) * layer_bytes;
      const auto live = static_cast<double>(counter.live().value());
      EXPECT_LE(live, layers * layer_bytes - saved + 1);
      EXPECT_GE(layers * layer_bytes - live, 0.9 * saved);
      // Backward never has more than forward's two whole layers besides what stays, and the copy of
      // the part of one tensor that a layer keeps.
      counter.reset_peak();
      for (std::int64_t i = num_layers; i-- > 0;) store.take(i);
      EXPECT_LE(static_cast<double>(counter.peak().value()), live + 0.1 * layer_bytes);
      EXPECT_EQ(counter.live(), 0_B);
    }
  }
}

// A tier that has not begun holds the tensors: nobody can get their memory.
TEST(ActivationStore, MemoryIsNotReusedBeforeItsCopyHasEnded) {
  install_counting_allocator();
  constexpr std::int64_t kRows = 2000;
  constexpr std::uint64_t kSeed = 77;
  std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
  LateTier tier(kSeed);
  AllocationCounter counter;
  const AllocationScope scope(counter);
  ActivationStore store(3, {.tier = &tier, .ratio = 0.7});
  tier.hold();
  store.put(0, random_layer(kRows, 0));
  EXPECT_GE(counter.live(), random_layer(kRows, 0).bytes());
  poison_free_memory(kRows);
  tier.let_go();
  store.put(1, random_layer(kRows, 1));  // waits for layer 0
  store.put(2, random_layer(kRows, 2));
  poison_free_memory(kRows);
  for (std::int64_t i = 3; i-- > 0;) expect_same(store.take(i), random_layer(kRows, i));
  EXPECT_TRUE(tier.empty());
}

TEST(ActivationStore, CopiesThatEndLateAndOutOfOrderChangeNothing) {
  install_counting_allocator();
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const std::int64_t rows = 1 + static_cast<std::int64_t>(seed * seed * 5);
    LateTier tier(seed);
    ActivationStore store(6, {.tier = &tier, .ratio = 0.05 * static_cast<double>(seed + 1)});
    for (std::int64_t i = 0; i < 6; ++i) {
      store.put(i, random_layer(rows, i));
      poison_free_memory(rows);
    }
    for (std::int64_t i = 6; i-- > 0;) {
      poison_free_memory(rows);
      expect_same(store.take(i), random_layer(rows, i));
    }
    EXPECT_TRUE(tier.empty());
  }
}

TEST(ActivationStore, ALayerTakenBackBeforeItHasGoneOutIsWhole) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    LateTier tier(seed);
    ActivationStore store(3, {.tier = &tier, .ratio = 1});
    store.put(0, random_layer(50, 0));
    expect_same(store.take(0), random_layer(50, 0));
  }
}

// Forward may be one layer ahead of the copies, not two.
TEST(ActivationStore, PutWaitsUntilTheLayerBeforeHasGoneOut) {
  LateTier tier(1);
  tier.hold();
  ActivationStore store(5, {.tier = &tier, .ratio = 1});
  store.put(0, random_layer(10, 0));
  std::atomic<bool> second_returned = false;
  std::thread forward([&] {
    store.put(1, random_layer(10, 1));
    second_returned = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_FALSE(second_returned);
  tier.let_go();
  forward.join();
}

TEST(ActivationStore, AStoreDestroyedAtAnyMomentLeavesNothingInTheTier) {
  for (std::int64_t puts = 0; puts <= 5; ++puts) {
    for (std::int64_t takes = 0; takes <= puts; ++takes) {
      LateTier tier(static_cast<std::uint64_t>(10 * puts + takes));
      {
        ActivationStore store(5, {.tier = &tier, .ratio = 0.6});
        for (std::int64_t i = 0; i < puts; ++i) store.put(i, random_layer(20, i));
        for (std::int64_t i = puts; i-- > puts - takes;) store.take(i);
      }
      EXPECT_TRUE(tier.empty()) << puts << " puts, " << takes << " takes";
    }
  }
}

TEST(ActivationStore, AFailedCopyIsAnErrorBeforeItsTensorsAreHandedOut) {
  constexpr std::int64_t kLayers = 5;
  const auto run = [](FailingTier& tier) {
    ActivationStore store(kLayers, {.tier = &tier, .ratio = 0.5});
    for (std::int64_t i = 0; i < kLayers; ++i) store.put(i, random_layer(100, i));
    for (std::int64_t i = kLayers; i-- > 0;) expect_same(store.take(i), random_layer(100, i));
  };
  int failures = 0;
  for (std::int64_t n = 0; n < 40; ++n) {
    for (const bool write : {true, false}) {
      FailingTier tier(write ? n : -1, write ? -1 : n);
      try {
        run(tier);
      } catch (const IoError& error) {
        ++failures;
        EXPECT_THAT(error.what(), ::testing::HasSubstr("/fake"));
      }
      EXPECT_TRUE(tier.empty());
    }
  }
  EXPECT_GE(failures, 12);  // three layers of at least two blocks each, out and back
}

TEST(ActivationStore, MeasuresAddUpAndThePeakIsTwoLayersBesideWhatStays) {
  MapTier tier;
  OffloadMeasures measures;
  const std::int64_t layer_bytes = random_layer(500, 0).bytes().value();
  for (int round = 1; round <= 2; ++round) {
    ActivationStore store(6, {.tier = &tier, .ratio = 1, .measures = &measures});
    for (std::int64_t i = 0; i < 6; ++i) store.put(i, random_layer(500, i));
    for (std::int64_t i = 6; i-- > 0;) store.take(i);
    EXPECT_EQ(measures.bytes, Bytes(round * 4 * layer_bytes));
  }
  EXPECT_EQ(measures.resident_peak, Bytes(2 * layer_bytes));
  EXPECT_GE(measures.waited.count(), 0);
}

TEST(ShareOut, SendsTheShareAndSplitsAtMostOneBlock) {
  const std::vector<std::vector<std::int64_t>> cases = {
      {}, {0}, {1}, {4096}, {4097, 1}, {1 << 20, 1 << 20, 4000, 4000, 64}, {7, 7, 7, 7, 7, 7}};
  for (const auto& blocks : cases) {
    const double total = static_cast<double>(std::accumulate(blocks.begin(), blocks.end(), 0LL));
    for (const double ratio : {0.0, 1e-6, 0.1, 0.25, 0.5, 0.75, 0.999, 1.0}) {
      const std::vector<std::int64_t> out = share_out(blocks, ratio);
      ASSERT_EQ(out.size(), blocks.size());
      int num_split = 0;
      for (std::size_t i = 0; i < out.size(); ++i) {
        EXPECT_GE(out[i], 0);
        EXPECT_LE(out[i], blocks[i]);
        if (out[i] == 0 || out[i] == blocks[i]) continue;
        ++num_split;
        const std::int64_t kept = blocks[i] - out[i];
        EXPECT_TRUE(kept < kOffloadAlignment || kept % kOffloadAlignment == 0) << kept;
      }
      EXPECT_LE(num_split, 1);
      const double sent = static_cast<double>(std::accumulate(out.begin(), out.end(), 0LL));
      EXPECT_GE(sent, ratio * total);
      EXPECT_LT(sent, ratio * total + kOffloadAlignment);
    }
  }
}

TEST(ShareOut, SplitsTheSmallestBlockThatHasTheRest) {
  EXPECT_THAT(share_out(std::vector<std::int64_t>{100, 80, 30, 10}, 0.5),
              ::testing::ElementsAre(100, 0, 0, 10));
  EXPECT_THAT(share_out(std::vector<std::int64_t>{100, 80, 30, 10}, 0.54),
              ::testing::ElementsAre(100, 0, 9, 10));
}

}  // namespace
}  // namespace weft
