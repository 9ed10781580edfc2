// Which differences a run may go on with, and what the log of a run keeps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "train/metrics_log.h"
#include "train/resume.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TrainConfig base_config() {
  TrainConfig config;
  config.model.hidden_size = 8;
  config.data.corpus = "there";
  return config;
}

std::string refusal(const TrainConfig& now, bool same_corpus, Allowances allowances) {
  ResumePoint point;
  try {
    check_continuation(base_config(), now, same_corpus, allowances, "OUT/c", point);
  } catch (const UserError& error) {
    return error.what();
  }
  return {};
}

TEST(Continuation, TheSameConfigurationGoesOnWithoutAWord) {
  ResumePoint point;
  check_continuation(base_config(), base_config(), true, {}, "c", point);
  EXPECT_THAT(point.differences, IsEmpty());
  EXPECT_THAT(point.notes, IsEmpty());
  EXPECT_FALSE(point.restarts_data);
}

TEST(Continuation, AnotherShapeIsRefusedWhateverIsAllowed) {
  for (const auto& change :
       {+[](TrainConfig& c) { c.model.hidden_size = 16; },
        +[](TrainConfig& c) { c.model.num_heads += 1; },
        +[](TrainConfig& c) { c.model.tie_word_embeddings = !c.model.tie_word_embeddings; },
        +[](TrainConfig& c) { c.train.dtype = "float64"; }}) {
    TrainConfig now = base_config();
    change(now);
    EXPECT_THAT(refusal(now, true, {.data_order = true}), HasSubstr("holds another model"));
  }
}

TEST(Continuation, WhatChangesTheDataOrderNeedsAnAllowance) {
  struct Case {
    void (*change)(TrainConfig&);
    const char* key;
    bool restarts;
  };
  for (const Case& c :
       {Case{[](TrainConfig& t) { t.data.seed = 7; }, "data.seed was 0, is 7", true},
        Case{[](TrainConfig& t) { t.data.over_long = "split"; }, "data.over_long", true},
        Case{[](TrainConfig& t) { t.data.max_context = Tokens(7); }, "data.max_context", true},
        Case{[](TrainConfig& t) { t.data.tail = "drop"; }, "data.tail", false},
        Case{[](TrainConfig& t) { t.data.global_batch_tokens = Tokens(99999); },
             "data.global_batch_tokens", false}}) {
    TrainConfig now = base_config();
    c.change(now);
    EXPECT_THAT(refusal(now, true, {}), AllOf(HasSubstr(c.key), HasSubstr("--allow data-order")));
    ResumePoint point;
    check_continuation(base_config(), now, true, {.data_order = true}, "c", point);
    EXPECT_EQ(point.restarts_data, c.restarts) << c.key;
    EXPECT_THAT(point.notes, ElementsAre(HasSubstr(c.key)));
  }
  EXPECT_THAT(refusal(base_config(), false, {}), HasSubstr("the corpus has other contents"));
}

TEST(Continuation, WhatChangesNeitherShapesNorOrderIsShownOnly) {
  TrainConfig now = base_config();
  now.optimizer.lr = 1;
  now.train.ranks = 7;
  now.data.corpus = "moved";  // same contents elsewhere
  now.model.rope_theta = 5e5;
  ResumePoint point;
  check_continuation(base_config(), now, true, {}, "c", point);
  EXPECT_EQ(point.differences.size(), 4u);
  EXPECT_FALSE(point.restarts_data);
}

TEST(Continuation, AnUnknownAllowanceIsNamed) {
  EXPECT_THROW(parse_allowances({"everything"}), UserError);
  EXPECT_TRUE(parse_allowances({"data-order"}).data_order);
  EXPECT_FALSE(parse_allowances({}).data_order);
}

class MetricsFolder : public testing::Test {
 protected:
  MetricsFolder() : path_(fs::temp_directory_path() / fmt::format("weft-metrics-{}", ::getpid())) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~MetricsFolder() override {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  std::string content(const char* name = "metrics.jsonl") const {
    return fs::exists(path_ / name) ? read_text_file(path_ / name) : "none";
  }
  static std::string line(int step) {
    return fmt::format("{{\"schema\":1,\"step\":{},\"a\":1}}", step);
  }

  fs::path path_;
};

// C106
TEST_F(MetricsFolder, LinesOfStepsThatRunAgainMoveAsideAndATornOneGoes) {
  std::ofstream(path_ / "metrics.jsonl") << line(0) << "\n"
                                         << line(1) << "\n"
                                         << line(2) << "\n"
                                         << line(3) << "\n"
                                         << "{\"step\":4,\"a";
  MetricsLog log(path_, 2);
  log.append(line(2));
  log.close();
  EXPECT_EQ(content(), line(0) + "\n" + line(1) + "\n" + line(2) + "\n");
  EXPECT_EQ(content("metrics.superseded.jsonl"), line(2) + "\n" + line(3) + "\n");
}

TEST_F(MetricsFolder, ANewRunStartsEmptyAndARepeatedOneKeepsNothing) {
  MetricsLog(path_, 0).append(line(0));
  EXPECT_EQ(content(), line(0) + "\n");
  MetricsLog again(path_, 0);
  EXPECT_EQ(content(), "");
  EXPECT_EQ(content("metrics.superseded.jsonl"), line(0) + "\n");
}

TEST_F(MetricsFolder, AFullDiskKeepsLinesForLaterAndIsAnErrorOnlyAtTheEnd) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  fs::create_symlink("/dev/full", path_ / "metrics.jsonl");
  // Opened through the link as a new file would be; nothing can ever be written to it.
  EXPECT_THROW(
      {
        MetricsLog log(path_, 0);
        log.append(line(0));
        log.append(line(1));
        log.close();
      },
      Error);
}

TEST(NewestRun, OnlyDamagedCheckpointsAreNoReasonToStartOver) {
  const fs::path out = fs::temp_directory_path() / fmt::format("weft-newest-{}", ::getpid());
  fs::create_directories(out / "checkpoints" / "step-000000003");
  TrainConfig config = base_config();
  config.train.out = out;
  EXPECT_THROW(find_resume_point(config, {}, {}), UserError);
  fs::remove_all(out / "checkpoints");
  EXPECT_FALSE(find_resume_point(config, {}, {}).manifest.has_value());
  std::ofstream(out / "metrics.jsonl") << "\n";
  EXPECT_THAT(find_resume_point(config, {}, {}).notes, ElementsAre(HasSubstr("starts again")));
  fs::remove_all(out);
}

}  // namespace
}  // namespace weft
