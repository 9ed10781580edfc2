// Every wrong configuration is refused with a message that names the key, its place, what was
// expected and found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "train/config.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kModel = R"([model]
hidden_size = 64
num_layers = 2
num_heads = 8
num_kv_heads = 4
head_dim = 8
intermediate_size = 128
)";
constexpr std::string_view kData = "[data]\ncorpus = \"c\"\n";  // line 8 and 9 after kModel

std::string refusal(std::string_view toml, const std::vector<Override>& overrides = {}) {
  try {
    parse_train_config(toml, "run.toml", overrides);
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

struct Case {
  std::string toml;                   // after kModel and kData
  std::vector<std::string> expected;  // parts of the message
};

void expect_refused(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    const std::string message = refusal(std::string(kModel) + std::string(kData) + c.toml);
    for (const std::string& part : c.expected) EXPECT_THAT(message, HasSubstr(part)) << c.toml;
  }
}

TEST(TrainConfigErrors, UnknownKeysAreNamedWithPlaceAndNearestKey) {
  expect_refused({
      {"[optimizer]\nlearning_rat = 1e-3\n",
       {"run.toml:11:1:", "'learning_rat' in [optimizer]", "'lr' in [optimizer]"}},
      {"[train]\nnum-epochs = 3\n",
       {"run.toml:11:1:", "'num-epochs' in [train]", "'steps' in [train]"}},
      {"[train]\n\n  step = 3\n", {"run.toml:12:3:", "'step'", "'steps' in [train]"}},
      {"[optimizer]\ncapacity = 4\n", {"'capacity' in [optimizer]", "'capacity' in [plan]"}},
      {"seq_length = 4096\n", {"'seq_length' in [data]", "'max_context' in [data]"}},
      {"[comm]\nseed = 1\n", {"'seed' in [comm]", "did you mean 'seed' in ["}},
      {"[optimizer]\nLR = 1\n", {"'LR'", "'lr' in [optimizer]"}},
      {"[plan]\nquite_another_thing_altogether = 1\n",
       {"'quite_another_thing_altogether' in [plan]", "its keys are strategy, capacity, cost"}},
      {"[plan.hdp]\nx = 1\n", {"run.toml:10:7:", "unknown key 'hdp' in [plan]"}},
  });
}

TEST(TrainConfigErrors, UnknownSectionsAndKeysOutsideSectionsAreNamed) {
  expect_refused({
      {"[optimiser]\nlr = 1\n",
       {"run.toml:10:2:", "unknown section [optimiser]", "did you mean [optimizer]?"}},
      {"[zzzzzzzzzz]\n",
       {"unknown section [zzzzzzzzzz]", "model, data, plan, memory, optimizer, train, comm"}},
      {"[[train]]\nsteps = 1\n", {"run.toml:10:3:", "[train] is a section", "an array"}},
  });
  EXPECT_THAT(refusal("lr = 1e-3\n"),
              HasSubstr("run.toml:1:1: unknown key 'lr' outside any section; did you mean "
                        "'lr' in [optimizer]?"));
  EXPECT_THAT(refusal("train = 3\n"), HasSubstr("run.toml:1:1: [train] is a section"));
  EXPECT_THAT(refusal("zzzzzzzzzzzzzzzzzzzzzz = 3\n"), HasSubstr("the sections are model, data"));
}

TEST(TrainConfigErrors, WrongTypesNameKeyExpectedAndGot) {
  expect_refused({
      {"[optimizer]\nlr = \"1e-3\"\n",
       {"run.toml:11:1: optimizer.lr:", "expected a number of at least 0",
        "got the text \"1e-3\""}},
      {"[train]\nsteps = 1.5\n",
       {"train.steps", "expected an integer of at least 0 (steps)", "got the number 1.5"}},
      {"[train]\nsteps = true\n", {"train.steps", "expected an integer", "got true"}},
      {"[train]\nsteps = \"many\"\n", {"train.steps", "expected a count", "'many'"}},
      {"[train]\nout = 3\n", {"train.out", "expected text", "got 3"}},
      {"[train]\nout = [\"a\"]\n", {"train.out", "expected text", "got an array"}},
      {"[train]\nout = 2024-01-01\n", {"train.out", "got a date or time"}},
      {"max_context = {}\n", {"data.max_context", "expected an integer", "got a table"}},
      {"[plan]\nstrategy = 1\n",
       {"plan.strategy", "one of static, sorted, pow2, hdp-naive, hdp-algorithm2, hdp", "got 1"}},
  });
  const std::string tied = std::string(kModel) + "tie_word_embeddings = \"yes\"\n";
  EXPECT_THAT(refusal(tied),
              HasSubstr("model.tie_word_embeddings: expected true or false, got the text \"yes\""));
}

TEST(TrainConfigErrors, ValuesOutsideTheirRangeNameTheRange) {
  expect_refused({
      {"[train]\nranks = 0\n", {"run.toml:11:1: train.ranks", "of at least 1", "got 0"}},
      {"[train]\nranks = -1\n", {"train.ranks", "got -1"}},
      {"[train]\nsteps = -1\n", {"train.steps", "got -1"}},
      {"[train]\nbucket_bytes = 7\n", {"train.bucket_bytes", "of at least 8 (bytes)", "got 7"}},
      {"[plan]\ncapacity = -1\n",
       {"plan.capacity", "of at least 0 and at most 1099511627776 (tokens)", "got -1"}},
      {"[memory]\nbudget_bytes = -1\n", {"memory.budget_bytes", "of at least 0 (bytes)", "got -1"}},
      {"[optimizer]\nbeta2 = 1\n", {"optimizer.beta2", "of at least 0 and below 1", "got 1"}},
      {"[optimizer]\nbeta1 = -0.1\n", {"optimizer.beta1", "got -0.1"}},
      {"[optimizer]\neps = 0\n", {"optimizer.eps", "got 0"}},
      {"[optimizer]\nlr = nan\n", {"optimizer.lr", "got nan"}},
      {"[optimizer]\nlr = inf\n", {"optimizer.lr", "got inf"}},
      {"[comm]\nwait_limit_s = 0.0\n",
       {"comm.wait_limit_s", "above 0 and at most 1000000 (seconds)", "got 0"}},
      {"over_long = \"truncate\"\n", {"data.over_long", "one of error, split", "got 'truncate'"}},
      {"[train]\nout = \"\"\n", {"train.out", "empty"}},
  });
}

TEST(TrainConfigErrors, ContradictionsBetweenKeysNameBoth) {
  expect_refused({
      {"[optimizer]\nmin_lr = 1e-3\n",
       {"optimizer.min_lr", "at most optimizer.lr = 0.0003", "got 0.001"}},
      {"max_context = 65537\n",
       {"data.max_context", "data.global_batch_tokens = 65536", "got 65537"}},
  });
  const auto model = [](const std::string& heads, const std::string& kv_heads,
                        const std::string& head_dim) {
    return refusal(std::string(kModel) + std::string(kData), {{"model.num_heads", heads},
                                                              {"model.num_kv_heads", kv_heads},
                                                              {"model.head_dim", head_dim}});
  };
  EXPECT_THAT(model("8", "3", "8"),
              HasSubstr("model.num_kv_heads: expected a divisor of model.num_heads = 8, got 3"));
  EXPECT_THAT(model("4", "8", "8"),
              HasSubstr("model.num_kv_heads: expected a divisor of model.num_heads = 4, got 8"));
  EXPECT_THAT(model("8", "8", "7"),
              HasSubstr("model.head_dim: expected an even number (rotary pairs), got 7"));
}

TEST(TrainConfigErrors, MissingRequiredKeysAreNamedWithBothWaysToGiveThem) {
  const std::string message = refusal(kModel);
  EXPECT_THAT(message, HasSubstr("run.toml: data.corpus is missing"));
  EXPECT_THAT(message, HasSubstr("set 'corpus' in [data] or give --data.corpus"));
  EXPECT_THAT(refusal(kData), HasSubstr("model.hidden_size is missing"));
  EXPECT_THAT(refusal(std::string(kModel) + "[data]\ncorpus = \"\"\n"),
              HasSubstr("data.corpus: expected text"));
}

TEST(TrainConfigErrors, BrokenTomlNamesLineAndColumn) {
  expect_refused({
      {"[train]\nsteps = \n", {"run.toml:11:", "not valid TOML"}},
      {"[train]\nsteps = 1\nsteps = 2\n", {"run.toml:12:", "not valid TOML"}},
      {"[train\n", {"run.toml:10:", "not valid TOML"}},
      {"[train]\nout = \"\xff\"\n", {"run.toml:11:", "not valid TOML"}},
      {"[train]\nsteps = 99999999999999999999\n", {"run.toml:11:", "not valid TOML"}},
  });
}

TEST(TrainConfigErrors, WrongOverridesNameTheOption) {
  const std::string good = std::string(kModel) + std::string(kData);
  const auto with = [&](const std::string& key, const std::string& value) {
    return refusal(good, {{key, value}});
  };
  EXPECT_THAT(with("optimizer.learning_rat", "1"),
              HasSubstr("--optimizer.learning_rat: unknown key 'learning_rat' in [optimizer]; did "
                        "you mean 'lr'"));
  EXPECT_THAT(with("optimiser.lr", "1"),
              HasSubstr("--optimiser.lr: unknown section [optimiser]; did you mean "
                        "[optimizer]?"));
  EXPECT_THAT(with("steps", "1"),
              HasSubstr("--steps: unknown key 'steps' outside any section; did you mean 'steps' "
                        "in [train]?"));
  EXPECT_THAT(with("train.steps.more", "1"), HasSubstr("unknown key 'steps.more' in [train]"));
  EXPECT_THAT(with("", "1"), HasSubstr("unknown key ''"));
  EXPECT_THAT(with("train.steps", "1e3"), HasSubstr("--train.steps: expected a count"));
  EXPECT_THAT(with("train.steps", ""), HasSubstr("--train.steps: expected a count"));
  EXPECT_THAT(with("train.ranks", "0"),
              HasSubstr("--train.ranks: expected an integer of at least 1"));
  EXPECT_THAT(with("optimizer.lr", "fast"),
              HasSubstr("--optimizer.lr: expected a number of at least 0, got 'fast'"));
  EXPECT_THAT(with("optimizer.lr", "1e-3x"), HasSubstr("got '1e-3x'"));
  EXPECT_THAT(with("optimizer.lr", "nan"), HasSubstr("got nan"));
  EXPECT_THAT(with("model.tie_word_embeddings", "1"), HasSubstr("expected true or false, got '1'"));
  EXPECT_THAT(with("plan.strategy", "HDP"),
              HasSubstr("--plan.strategy: expected one of static, sorted, pow2, hdp-naive, "
                        "hdp-algorithm2, hdp, got "
                        "'HDP'"));
  EXPECT_THAT(with("train.out", "a\xff"), HasSubstr("--train.out: expected text in UTF-8"));
}

TEST(TrainConfigErrors, ArgumentsThatAreNoOverridesAreRefused) {
  const auto arguments = [](const std::vector<std::string>& list) -> std::string {
    try {
      parse_overrides(list);
    } catch (const UserError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(arguments({"--train.steps"}), HasSubstr("--train.steps needs a value"));
  EXPECT_THAT(arguments({"--train.steps", "--train.ranks", "2"}),
              HasSubstr("--train.steps needs a value"));
  EXPECT_THAT(arguments({"train.steps", "2"}), HasSubstr("unexpected argument 'train.steps'"));
  EXPECT_THAT(arguments({"--train.steps", "2", "3"}), HasSubstr("unexpected argument '3'"));
  EXPECT_THAT(arguments({"--"}), HasSubstr("unexpected argument '--'"));
  EXPECT_EQ(arguments({"--optimizer.lr", "-1"}), "accepted");
  EXPECT_EQ(arguments({}), "accepted");
}

TEST(TrainConfigErrors, AMissingFileIsNamed) {
  try {
    load_train_config("no/such/file.toml", {});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no/such/file.toml"));
  }
}

}  // namespace
}  // namespace weft
