// Checkpoints as values, as folders, and as ranks write and read them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/checkpoint_io.h"
#include "comm/thread/thread_world.h"
#include "tests/unit/checkpoint/temporary_directory.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

CheckpointManifest small_manifest() {
  return {.position = {.step = 12,
                       .num_updates = 11,
                       .dropped_sequences = 3,
                       .reader = {.seed = 0xffff'ffff'ffff'ffff, .epoch = 2, .position = 5}},
          .corpus_hash = {1, 2},
          .config_hash = {3, 4},
          .files = {{"part-00000.safetensors", 100, 7}, {"config.toml", 3, 8}},
          .tensors = {{"parameter/a", "F32", {2, 5}, {{0, 0, 4}, {0, 4, 10}}},
                      {"parameter/empty", "F64", {0}, {}},
                      {"parameter/scalar", "F64", {}, {{1, 0, 1}}}}};
}

std::string refusal_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const UserError& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return {};
}

// Changes the text of a manifest and seals it anew, so that only the change is wrong.
std::string resealed(std::string text, const std::string& from, const std::string& to) {
  text.replace(text.find(from), from.size(), to);
  const std::string message =
      refusal_of([&] { decode_manifest(text, "m"); });  // "... its values give CHECKSUM"
  const std::string give = "its values give ";
  const std::string checksum = message.substr(message.find(give) + give.size(), 16);
  const std::string key = "\"checksum\": \"";
  text.replace(text.rfind(key) + key.size(), 16, checksum);
  return text;
}

TEST(CheckpointManifest, ReadsBackAsItWas) {
  const CheckpointManifest manifest = small_manifest();
  EXPECT_EQ(decode_manifest(encode_manifest(manifest), "m"), manifest);
}

TEST(CheckpointManifest, EveryFlippedBitAndEveryCutIsRefused) {
  const std::string text = encode_manifest(small_manifest());
  for (std::size_t i = 0; i < text.size(); i += 3) {
    std::string flipped = text;
    flipped[i] = static_cast<char>(flipped[i] ^ (1 << (i % 7)));
    const bool only_space = std::isspace(static_cast<unsigned char>(text[i])) != 0;
    if (only_space) continue;  // space between values has no meaning
    EXPECT_THROW(decode_manifest(flipped, "m"), UserError) << "byte " << i;
    EXPECT_THROW(decode_manifest(text.substr(0, i), "m"), UserError) << "cut at " << i;
  }
}

TEST(CheckpointManifest, EachKindOfWrongValueIsNamed) {
  const std::string text = encode_manifest(small_manifest());
  const auto refused = [&](const std::string& from, const std::string& to) {
    const std::string changed = resealed(text, from, to);
    return refusal_of([&] { decode_manifest(changed, "m"); });
  };
  EXPECT_THAT(refused("\"step\": 12", "\"step\": -1"), HasSubstr("at least 0 for \"step\""));
  EXPECT_THAT(refused("\"step\": 12", "\"step\": 1.5"), HasSubstr("whole number"));
  EXPECT_THAT(refused("\"step\": 12", "\"step\": 10"), HasSubstr("11 optimizer updates in 10"));
  EXPECT_THAT(refused("\"config.toml\"", "\"../config\""), HasSubstr("inside the checkpoint"));
  EXPECT_THAT(refused("\"config.toml\"", "\"..\""), HasSubstr("inside the checkpoint"));
  EXPECT_THAT(refused("    4,\n     10", "    3,\n     10"), HasSubstr("hole or overlap"));
  EXPECT_THAT(refused("    4,\n     10", "    5,\n     10"), HasSubstr("hole or overlap"));
  EXPECT_THAT(refused("    4,\n     10", "    4,\n     9"), HasSubstr("hold 9 elements"));
  EXPECT_THAT(refused("    2,\n    5", "    4611686018427387904,\n    5"),
              HasSubstr("64 bits can count"));
}

TEST(CheckpointManifest, ANewerVersionAndAnotherFormatAreRefusedByName) {
  std::string text = encode_manifest(small_manifest());
  std::string newer = text;
  newer.replace(newer.find("\"version\": 1"), 12, "\"version\": 2");
  EXPECT_THAT(refusal_of([&] { decode_manifest(newer, "m"); }),
              AllOf(HasSubstr("version 2"), HasSubstr("newer program")));
  EXPECT_THAT(refusal_of([] { decode_manifest("{\"format\":\"weft-corpus\"}", "m"); }),
              HasSubstr("weft-checkpoint"));
  EXPECT_THAT(refusal_of([] { decode_manifest("", "m"); }), HasSubstr("manifest"));
}

// A model whose parameters are very uneven: shards lie inside one weight, and hold several (C067).
struct State {
  explicit State(at::ScalarType dtype, bool tied = true)
      : parameters({.vocab_size = 37,
                    .hidden_size = 16,
                    .num_layers = 2,
                    .num_heads = 4,
                    .num_kv_heads = 2,
                    .head_dim = 4,
                    .intermediate_size = 24,
                    .tie_word_embeddings = tied},
                   dtype),
        optimizer(parameters, {}) {}

  void fill(std::uint64_t seed) {
    for (const auto& [flat, purpose] :
         {std::pair{parameters.flat_values(), "v"}, std::pair{optimizer.first_moments(), "m"},
          std::pair{optimizer.second_moments(), "s"}}) {
      const RandomStream random(seed, purpose);
      for (std::int64_t i = 0; i < flat.numel(); ++i) {
        flat[i] = random.normal(static_cast<std::uint64_t>(i));
      }
    }
    optimizer.set_num_updates(11);
  }

  ParameterSet parameters;
  AdamW optimizer;
};

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.nbytes() == b.nbytes() && std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0;
}

void run_ranks(std::int32_t num_ranks, const std::function<void(Communicator&)>& body) {
  run_thread_ranks({.num_ranks = num_ranks, .wait_limit = std::chrono::seconds(30)}, body);
}

constexpr std::int64_t kStep = 12;

// Saves a filled state by `num_ranks` ranks; returns the failure that all of them saw.
std::optional<RankReason> save(const fs::path& folder, std::int32_t num_ranks, at::ScalarType dtype,
                               std::int64_t step = kStep, std::int64_t keep_last = 0) {
  std::vector<std::optional<RankReason>> failures(static_cast<std::size_t>(num_ranks));
  run_ranks(num_ranks, [&](Communicator& comm) {
    State state(dtype);
    state.fill(1);
    CheckpointHead head;
    if (comm.rank() == Rank(0)) {
      head = {.position = {.step = step,
                           .num_updates = std::min<std::int64_t>(step, 11),
                           .dropped_sequences = 0,
                           .reader = {}},
              .corpus_hash = {5, 6},
              .config = "text = 1\n"};
    }
    failures[static_cast<std::size_t>(comm.rank().value())] =
        save_checkpoint(comm, {.folder = folder, .keep_last = keep_last}, step, head,
                        state.parameters, state.optimizer);
  });
  for (const auto& failure : failures) {
    EXPECT_EQ(failure.has_value(), failures[0].has_value());
    if (failure && failures[0]) {
      EXPECT_EQ(failure->reason, failures[0]->reason);
    }
  }
  return failures[0];
}

class CheckpointRoundTrip : public testing::TestWithParam<at::ScalarType> {};

TEST_P(CheckpointRoundTrip, IsBitExactFromAnyNumberOfRanksToAnyOther) {
  State expected(GetParam());
  expected.fill(1);
  for (const std::int32_t writers : {1, 2, 3, 4, 7}) {
    const TemporaryDirectory directory;
    ASSERT_FALSE(save(directory / "c", writers, GetParam()).has_value());
    EXPECT_EQ(read_checkpoint(checkpoint_path(directory / "c", kStep), true).position.step, kStep);
    for (const std::int32_t readers : {1, 3, 6}) {
      run_ranks(readers, [&](Communicator& comm) {
        State state(GetParam());
        load_checkpoint(comm, checkpoint_path(directory / "c", kStep), state.parameters,
                        state.optimizer);
        EXPECT_TRUE(same_bits(state.parameters.flat_values(), expected.parameters.flat_values()));
        EXPECT_TRUE(same_bits(state.optimizer.first_moments(), expected.optimizer.first_moments()));
        EXPECT_TRUE(
            same_bits(state.optimizer.second_moments(), expected.optimizer.second_moments()));
        EXPECT_EQ(state.optimizer.num_updates(), 11);
      });
    }
  }
}

// C076: one embedding, one set of moments, no output head beside them.
TEST_P(CheckpointRoundTrip, ATiedEmbeddingIsStoredOnceWithItsMoments) {
  for (const bool tied : {true, false}) {
    const TemporaryDirectory directory;
    run_ranks(3, [&](Communicator& comm) {
      State state(GetParam(), tied);
      state.fill(1);
      ASSERT_FALSE(save_checkpoint(comm, {.folder = directory / "c"}, 0, {}, state.parameters,
                                   state.optimizer)
                       .has_value());
      State loaded(GetParam(), tied);
      load_checkpoint(comm, checkpoint_path(directory / "c", 0), loaded.parameters,
                      loaded.optimizer);
      EXPECT_TRUE(same_bits(loaded.parameters.flat_values(), state.parameters.flat_values()));
      EXPECT_TRUE(same_bits(loaded.optimizer.first_moments(), state.optimizer.first_moments()));
    });
    std::string headers;
    for (const auto& file : fs::directory_iterator(checkpoint_path(directory / "c", 0)))
      headers += read_text_file(file);
    EXPECT_THAT(headers, HasSubstr("model.embed_tokens.weight"));
    EXPECT_EQ(headers.find("lm_head.weight") == std::string::npos, tied);
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, CheckpointRoundTrip, testing::Values(at::kFloat, at::kDouble));

TEST(Checkpoint, MoreRanksThanElementsLeaveSomePartsEmpty) {
  const TemporaryDirectory directory;
  const ModelConfig one = {.vocab_size = 1,
                           .hidden_size = 1,
                           .num_layers = 1,
                           .num_heads = 1,
                           .num_kv_heads = 1,
                           .head_dim = 2,
                           .intermediate_size = 1,
                           .tie_word_embeddings = true};
  run_ranks(24, [&](Communicator& comm) {
    ParameterSet parameters(one, at::kFloat);
    EXPECT_LT(parameters.size(), 24);
    parameters.initialize(3);
    AdamW optimizer(parameters, {});
    const auto failure =
        save_checkpoint(comm, {.folder = directory / "c"}, 0, {}, parameters, optimizer);
    EXPECT_FALSE(failure.has_value());
    ParameterSet loaded(one, at::kFloat);
    load_checkpoint(comm, checkpoint_path(directory / "c", 0), loaded, optimizer);
    EXPECT_TRUE(same_bits(loaded.flat_values(), parameters.flat_values()));
  });
}

TEST(Checkpoint, AnotherModelIsRefusedOnEveryRankWithTheTensor) {
  const TemporaryDirectory directory;
  ASSERT_FALSE(save(directory / "c", 2, at::kFloat).has_value());
  const auto refused = [&](at::ScalarType dtype, bool tied) {
    return refusal_of([&] {
      run_ranks(2, [&](Communicator& comm) {
        State state(dtype, tied);
        load_checkpoint(comm, checkpoint_path(directory / "c", kStep), state.parameters,
                        state.optimizer);
      });
    });
  };
  EXPECT_THAT(refused(at::kFloat, false), HasSubstr("lm_head.weight"));
  EXPECT_THAT(refused(at::kDouble, true), AllOf(HasSubstr("F32"), HasSubstr("F64")));
}

TEST(Checkpoint, ATensorThatTheModelDoesNotHaveIsRefused) {
  const TemporaryDirectory directory;
  run_ranks(1, [&](Communicator& comm) {
    State untied(at::kFloat, false);
    ASSERT_FALSE(save_checkpoint(comm, {.folder = directory / "c"}, 0, {}, untied.parameters,
                                 untied.optimizer)
                     .has_value());
    State tied(at::kFloat, true);
    EXPECT_THAT(refusal_of([&] {
                  load_checkpoint(comm, checkpoint_path(directory / "c", 0), tied.parameters,
                                  tied.optimizer);
                }),
                HasSubstr("lm_head.weight"));
  });
}

// C079: some ranks' folder is not the others'.
TEST(Checkpoint, RanksThatSeeDifferentCheckpointsStopWithTheListOfWhoSawWhat) {
  const TemporaryDirectory directory;
  ASSERT_FALSE(save(directory / "c", 2, at::kFloat).has_value());
  const std::string text = refusal_of([&] {
    run_ranks(3, [&](Communicator& comm) {
      State state(at::kFloat);
      const fs::path folder = directory / (comm.rank() == Rank(2) ? "elsewhere" : "c");
      load_checkpoint(comm, checkpoint_path(folder, kStep), state.parameters, state.optimizer);
    });
  });
  EXPECT_THAT(text, AllOf(HasSubstr("rank 2: failed"), HasSubstr("elsewhere"),
                          HasSubstr("rank 0: step 12"), Not(HasSubstr("rank 1:"))));
}

TEST(Checkpoint, AFailedSaveIsKnownToAllRanksAndHarmsNoEarlierCheckpoint) {
  const TemporaryDirectory directory;
  const fs::path folder = directory / "c";
  ASSERT_FALSE(save(folder, 3, at::kFloat, 10).has_value());
  // A file where the next checkpoint's folder should be: nobody can write there, root neither.
  std::ofstream(checkpoint_path(folder, 20).string() + ".incomplete") << "in the way";
  fs::permissions(folder, fs::perms::owner_read | fs::perms::owner_exec);
  std::ofstream(directory / "file") << "not a folder";
  EXPECT_THAT(save(directory / "file", 3, at::kFloat, 20)->reason, HasSubstr("cannot create"));
  fs::permissions(folder, fs::perms::owner_all);
  EXPECT_EQ(find_newest_checkpoint(folder).manifest->position.step, 10);
}

// C073: a killed save left a half-written folder; the same step saves again.
TEST(Checkpoint, WhatAKilledSaveLeftDoesNotStandInTheWay) {
  const TemporaryDirectory directory;
  const fs::path folder = directory / "c";
  const fs::path left = incomplete_checkpoint_path(folder, 20);
  fs::create_directories(left);
  std::ofstream(left / "part-00000.safetensors") << "half";
  fs::create_directories(folder / "step-000000005.removed");
  fs::create_directories(folder / "step-notes.incomplete");  // not ours
  ASSERT_FALSE(save(folder, 2, at::kFloat, 20).has_value());
  EXPECT_FALSE(fs::exists(left));
  EXPECT_FALSE(fs::exists(folder / "step-000000005.removed"));
  EXPECT_TRUE(fs::exists(folder / "step-notes.incomplete"));
  ASSERT_FALSE(save(folder, 1, at::kFloat, 20).has_value());  // replaces a whole one
  EXPECT_EQ(find_newest_checkpoint(folder).manifest->files.size(), 2u);
}

TEST(Checkpoint, OnlyTheNewestAreKept) {
  const TemporaryDirectory directory;
  const fs::path folder = directory / "c";
  for (const std::int64_t step : {0, 7, 30, 200}) {
    ASSERT_FALSE(save(folder, 1, at::kFloat, step, 2).has_value());
  }
  EXPECT_THAT(list_checkpoints(folder), ElementsAre(200, 30));
  ASSERT_FALSE(save(folder, 1, at::kFloat, 201, 0).has_value());
  EXPECT_THAT(list_checkpoints(folder), ElementsAre(201, 200, 30));
}

// C074
TEST(Checkpoint, TheNewestWholeOneIsFoundAndEachDamageHasItsOwnReason) {
  const TemporaryDirectory directory;
  const fs::path folder = directory / "c";
  for (std::int64_t step = 1; step <= 6; ++step) {
    ASSERT_FALSE(save(folder, 2, at::kFloat, step).has_value());
  }
  const auto in = [&](std::int64_t step, const char* name) {
    return checkpoint_path(folder, step) / name;
  };
  fs::resize_file(in(6, "part-00001.safetensors"),
                  fs::file_size(in(6, "part-00001.safetensors")) / 2);
  fs::remove(in(5, "checkpoint.json"));
  fs::remove(in(4, "part-00000.safetensors"));
  std::fstream(in(3, "part-00000.safetensors"), std::ios::in | std::ios::out | std::ios::binary)
      .seekp(5000)
      .put('\x55');
  std::ofstream(in(2, "checkpoint.json")) << "{}";
  const NewestCheckpoint newest = find_newest_checkpoint(folder);
  ASSERT_TRUE(newest.manifest.has_value());
  EXPECT_EQ(newest.manifest->position.step, 1);
  EXPECT_THAT(
      newest.damaged,
      ElementsAre(HasSubstr("bytes, expected"), HasSubstr("not written to its end"),
                  HasSubstr("is missing"), HasSubstr("is damaged"), HasSubstr("weft-checkpoint")));
}

TEST(Checkpoint, FoldersOfOtherNamesAreNoCheckpoints) {
  const TemporaryDirectory directory;
  for (const char* name : {"step-12", "step-0000000012", "step--00000001", "step-000000001x",
                           "step-000000012.incomplete", "other", "step-000000007"}) {
    fs::create_directories(directory / name);
  }
  EXPECT_THAT(list_checkpoints(directory / ""), ElementsAre(7));
  EXPECT_THAT(list_checkpoints(directory / "nowhere"), ElementsAre());
}

}  // namespace
}  // namespace weft
