// A run that ends and starts again is the run that never ended: losses, plans, weights and moments,
// bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "comm/thread/thread_world.h"
#include "corpus/byte_tokenizer.h"
#include "corpus/corpus_builder.h"
#include "plan/plan_codec.h"
#include "train/plan_feed.h"
#include "train/stop_signal.h"
#include "train/trainer.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr int kDocuments = 40;

// A corpus of short documents, shared by all tests of this program.
class Resume : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = fs::temp_directory_path() / fmt::format("weft-resume-{}", ::getpid());
    fs::create_directories(folder_ / "text");
    for (int i = 0; i < kDocuments; ++i) {
      std::ofstream file(folder_ / "text" / fmt::format("{:02}.txt", i));
      for (int j = 0; j <= i * i % 57; ++j) file << static_cast<char>('a' + (i * 7 + j * j) % 26);
    }
    CorpusBuildOptions options;
    options.out = folder_ / "corpus";
    options.inputs = {folder_ / "text"};
    build_corpus(ByteTokenizer(), options);
  }
  static void TearDownTestSuite() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  // One epoch has about nine steps.
  static TrainingJob job(const std::string& out, std::int64_t steps, std::int64_t ranks) {
    TrainingJob job;
    job.config.model = {.vocab_size = 0,
                        .hidden_size = 16,
                        .num_layers = 2,
                        .num_heads = 4,
                        .num_kv_heads = 2,
                        .head_dim = 4,
                        .intermediate_size = 24,
                        .tie_word_embeddings = true};
    job.config.data.corpus = folder_ / "corpus";
    job.config.data.global_batch_tokens = Tokens(128);
    job.config.data.max_context = Tokens(64);
    job.config.plan.capacity = Tokens(32);
    job.config.optimizer = {.lr = 1e-2, .min_lr = 1e-3, .warmup_steps = 3};
    job.config.train.out = folder_ / out;
    job.config.train.steps = steps;
    job.config.train.ranks = ranks;
    job.config.train.save_interval = 0;
    return job;
  }

  // The schedule depends on train.steps, so a run is cut short by a limit of its own.
  static TrainingJob without_decay(TrainingJob job) {
    job.config.optimizer.min_lr = job.config.optimizer.lr;
    return job;
  }

  static std::vector<std::string> lines(const std::string& out, const char* name) {
    std::vector<std::string> lines;
    std::ifstream file(folder_ / out / name);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }

  // What must not depend on time or interruptions: "step", "loss", "lr", "plan_hash" ...
  static std::vector<std::string> essence(const std::string& out) {
    std::vector<std::string> result;
    for (const std::string& line : lines(out, "metrics.jsonl")) {
      std::string kept;
      for (const char* key : {"\"step\":", "\"loss\":", "\"grad_norm\":", "\"lr\":", "\"tokens\":",
                              "\"skipped_steps\":", "\"plan_hash\":"}) {
        const std::size_t begin = line.find(key);
        kept += line.substr(begin, line.find_first_of(",}", begin) - begin) + " ";
      }
      result.push_back(kept);
    }
    return result;
  }

  static std::string weights(const std::string& out) {
    return read_text_file(folder_ / out / "model.safetensors");
  }

  static fs::path folder_;
};
fs::path Resume::folder_;

TEST_F(Resume, ARunInPiecesIsTheRunInOneBitForBitAlsoBeyondTheFirstEpoch) {
  run_training(without_decay(job("whole", 31, 3)));
  for (const std::int64_t steps : {1, 4, 10, 11, 25, 31}) {
    EXPECT_EQ(run_training(without_decay(job("pieces", steps, 3))), LoopEnd::kFinished);
  }
  EXPECT_EQ(essence("pieces"), essence("whole"));
  EXPECT_EQ(weights("pieces"), weights("whole"));
  const std::vector<std::string> pieces = lines("pieces", "metrics.jsonl");
  EXPECT_THAT(pieces[0], HasSubstr("\"resumed_at\":null"));
  EXPECT_THAT(pieces[9], HasSubstr("\"resumed_at\":4"));
  EXPECT_THAT(pieces[30], HasSubstr("\"resumed_at\":25"));
}

// Bars of saving and loading: 4 ranks save; 1, 3 and 6 go on.
TEST_F(Resume, OtherRankCountsAndStrategiesGoOnFromTheSameState) {
  run_training(without_decay(job("four", 12, 4)));
  const auto saved = checkpoint_path(folder_ / "four" / "checkpoints", 12);
  run_training(without_decay(job("four", 13, 4)));
  const auto loss_of_last = [](const std::string& out) {
    const std::string line = lines(out, "metrics.jsonl").back();
    return std::stod(line.substr(line.find("\"loss\":") + 7));
  };
  for (const std::int64_t ranks : {1, 3, 6}) {
    const std::string out = fmt::format("go_on_{}", ranks);
    fs::create_directories(folder_ / out / "checkpoints");
    fs::copy(saved, folder_ / out / "checkpoints" / saved.filename());
    TrainingJob next = without_decay(job(out, 13, ranks));
    next.config.plan.strategy = ranks == 3 ? "static" : "hdp-naive";
    next.config.plan.capacity = Tokens(64);
    run_training(next);
    EXPECT_NEAR(loss_of_last(out), loss_of_last("four"), 1e-6) << ranks << " ranks";
  }
}

// C068: the reader's state belongs to the run, not to ranks that may be missing later.
TEST_F(Resume, EverySampleOfAnEpochIsSeenOnceWhenFourRanksSaveAndTwoGoOn) {
  const auto run = [](const std::string& out, std::int64_t steps, std::int64_t ranks) {
    TrainingJob job = without_decay(Resume::job(out, steps, ranks));
    job.save_plans = true;
    run_training(job);
    return list_plan_files(folder_ / out / "plans");
  };
  const std::vector<fs::path> whole = run("four_whole", 12, 4);
  run("four_two", 4, 4);
  const std::vector<fs::path> pieces = run("four_two", 12, 2);
  ASSERT_EQ(pieces.size(), whole.size());
  std::set<std::int64_t> seen;  // an id of each epoch is another one
  for (std::size_t step = 0; step < pieces.size(); ++step) {
    const std::vector<SequenceSpec> sequences = load_plan(pieces[step]).sequences;
    EXPECT_EQ(sequences, load_plan(whole[step]).sequences) << "step " << step;
    for (const SequenceSpec& sequence : sequences) EXPECT_TRUE(seen.insert(sequence.id).second);
  }
  EXPECT_GE(static_cast<int>(seen.size()), kDocuments) << "twelve steps are less than an epoch";
}

// C071: the moments matter, and are restored.
TEST_F(Resume, WithoutItsMomentsARunWouldGoElsewhere) {
  run_training(without_decay(job("uninterrupted", 8, 2)));
  run_training(without_decay(job("resumed", 7, 2)));
  run_training(without_decay(job("resumed", 8, 2)));
  EXPECT_EQ(weights("resumed"), weights("uninterrupted"));

  run_training(without_decay(job("weights_only", 7, 2)));
  const fs::path checkpoints = folder_ / "weights_only" / "checkpoints";
  run_thread_ranks({.num_ranks = 1}, [&](Communicator& comm) {
    const TrainingJob small = job("weights_only", 7, 2);
    ModelConfig model = small.config.model;
    model.vocab_size = ByteTokenizer().vocab_size();
    ParameterSet parameters(model, at::kFloat);
    AdamW optimizer(parameters, {});
    const fs::path path = checkpoint_path(checkpoints, 7);
    const CheckpointManifest manifest = read_checkpoint(path, true);
    load_checkpoint(comm, path, parameters, optimizer);
    optimizer.first_moments().zero_();
    optimizer.second_moments().zero_();
    save_checkpoint(comm, {.folder = checkpoints}, 7,
                    {.position = manifest.position,
                     .corpus_hash = manifest.corpus_hash,
                     .config = read_text_file(path / "config.toml")},
                    parameters, optimizer);
  });
  run_training(without_decay(job("weights_only", 8, 2)));
  EXPECT_NE(weights("weights_only"), weights("uninterrupted"));
}

// C080
TEST_F(Resume, AtStepOneHundredThousandTheFirstStepComesAtOnce) {
  constexpr std::int64_t kStep = 100'000;
  run_training(without_decay(job("far", 5, 2)));
  const fs::path checkpoints = folder_ / "far" / "checkpoints";
  CheckpointManifest manifest = read_checkpoint(checkpoint_path(checkpoints, 5), true);
  fs::copy(checkpoint_path(checkpoints, 5), incomplete_checkpoint_path(checkpoints, kStep));
  manifest.position.step = kStep;
  manifest.position.num_updates = kStep - 7;
  manifest.position.reader.epoch = 11'000;
  commit_checkpoint(checkpoints, manifest);
  const auto start = std::chrono::steady_clock::now();
  run_training(without_decay(job("far", kStep + 2, 2)));
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  std::printf("two steps from step %ld: %.2f s\n", static_cast<long>(kStep), elapsed.count());
  EXPECT_LT(elapsed.count(), 20);  // a replay of 100,000 batches takes minutes
  const auto metrics = lines("far", "metrics.jsonl");
  EXPECT_THAT(metrics.back(), HasSubstr("\"step\":100001,"));
  EXPECT_THAT(metrics.back(), HasSubstr("\"skipped_steps\":7,"));
}

TEST_F(Resume, AStopBeforeAnyStepStillLeavesAWholeCheckpoint) {
  install_stop_signals();
  std::raise(SIGUSR1);  // stays requested: nothing else in this program may train after it
  EXPECT_TRUE(stop_requested());
  EXPECT_STREQ(stop_signal_name(), "SIGUSR1");
  EXPECT_EQ(run_training(job("stopped", 5, 3)), LoopEnd::kStopped);
  const NewestCheckpoint newest = find_newest_checkpoint(folder_ / "stopped" / "checkpoints");
  ASSERT_TRUE(newest.manifest.has_value());
  EXPECT_EQ(newest.manifest->position.step, 0);
  EXPECT_FALSE(fs::exists(folder_ / "stopped" / "model.safetensors"));
}

}  // namespace
}  // namespace weft
