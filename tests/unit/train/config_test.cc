#include "train/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "train/config_schema.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kSmallest = R"(
[model]
hidden_size = 64
num_layers = 2
num_heads = 8
num_kv_heads = 4
head_dim = 8
intermediate_size = 128
[data]
corpus = "some/corpus"
)";

TrainConfig smallest(std::vector<Override> overrides = {}) {
  return parse_train_config(kSmallest, "smallest.toml", overrides);
}

// kSmallest ends inside [data].
TrainConfig smallest_and(std::string_view more) {
  return parse_train_config(fmt::format("{}{}", kSmallest, more), "smallest.toml", {});
}

// A legal value other than the default (and other than the one in kSmallest) for every key.
const std::map<std::string, std::string>& other_values() {
  static const std::map<std::string, std::string> kValues = {
      {"model.vocab_size", "300"},
      {"model.hidden_size", "96"},
      {"model.num_layers", "3"},
      {"model.num_heads", "16"},
      {"model.num_kv_heads", "2"},
      {"model.head_dim", "32"},
      {"model.intermediate_size", "1K"},
      {"model.rope_theta", "500000"},
      {"model.rms_norm_eps", "1e-6"},
      {"model.tie_word_embeddings", "false"},
      {"data.corpus", "other/corpus"},
      {"data.global_batch_tokens", "128K"},
      {"data.max_context", "8K"},
      {"data.over_long", "split"},
      {"data.tail", "drop"},
      {"data.seed", "9223372036854775807"},
      {"data.weighting", "sample"},
      {"plan.strategy", "hdp-naive"},
      {"plan.capacity", "2K"},
      {"plan.cost", "cost.json"},
      {"plan.steps_ahead", "3"},
      {"memory.recompute", "full"},
      {"memory.budget_bytes", "3G"},
      {"optimizer.lr", "0.002"},
      {"optimizer.min_lr", "0"},
      {"optimizer.warmup_steps", "7"},
      {"optimizer.beta1", "0"},
      {"optimizer.beta2", "0.999"},
      {"optimizer.eps", "1e-6"},
      {"optimizer.weight_decay", "0"},
      {"optimizer.clip_grad", "0"},
      {"train.steps", "0"},
      {"train.out", "else where/\"quoted\"\\"},
      {"train.ranks", "7"},
      {"train.dtype", "float64"},
      {"train.seed", "3"},
      {"train.threads_per_rank", "2"},
      {"train.log_interval", "10"},
      {"train.bucket_bytes", "1M"},
      {"train.attention", "reference"},
      {"train.save_interval", "5"},
      {"memory.offload", "disk"},
      {"memory.offload_path", "/scratch"},
      {"memory.offload_bytes_per_second", "2e9"},
      {"train.keep_last", "0"},
      {"comm.wait_limit_s", "0.25"},
      {"comm.check_messages", "false"},
  };
  return kValues;
}

std::vector<std::string> differing_keys(const TrainConfig& left, const TrainConfig& right) {
  std::vector<std::string> keys;
  for (const ConfigDifference& entry : diff(left, right)) keys.push_back(entry.key);
  return keys;
}

TEST(TrainConfig, EveryKeyOfTheTableHasAnOtherValueInThisTest) {
  EXPECT_EQ(other_values().size(), config_fields().size());
  for (const ConfigField& field : config_fields())
    EXPECT_TRUE(other_values().contains(field.key())) << field.key();
}

TEST(TrainConfig, AnOverrideOfAnyKeyChangesExactlyThatKey) {
  for (const auto& [key, value] : other_values()) {
    const TrainConfig changed = smallest({{key, value}});
    EXPECT_THAT(differing_keys(smallest(), changed), ElementsAre(key));
    EXPECT_NE(smallest(), changed) << key;
  }
}

TEST(TrainConfig, AKeyInTheFileDoesWhatItsOverrideDoes) {
  for (const auto& [key, value] : other_values()) {
    const TrainConfig changed = smallest({{key, value}});
    const TrainConfig read = parse_train_config(to_toml(changed), "effective.toml", {});
    EXPECT_EQ(read, changed) << key;
    EXPECT_THAT(differing_keys(smallest(), read), ElementsAre(key));
  }
}

TEST(TrainConfig, EachKeyReachesItsOwnMemberOfTheStruct) {
  std::vector<Override> overrides;
  for (const auto& [key, value] : other_values()) overrides.push_back({key, value});
  const TrainConfig c = smallest(overrides);
  const ModelConfig model = {.vocab_size = 300,
                             .hidden_size = 96,
                             .num_layers = 3,
                             .num_heads = 16,
                             .num_kv_heads = 2,
                             .head_dim = 32,
                             .intermediate_size = 1024,
                             .rope_theta = 500000,
                             .rms_norm_eps = 1e-6,
                             .tie_word_embeddings = false};
  EXPECT_EQ(c.model, model);
  const DataConfig data = {.corpus = "other/corpus",
                           .global_batch_tokens = Tokens(131072),
                           .max_context = Tokens(8192),
                           .over_long = "split",
                           .tail = "drop",
                           .seed = 9223372036854775807,
                           .weighting = "sample"};
  EXPECT_EQ(c.data, data);
  const PlanConfig plan = {
      .strategy = "hdp-naive", .capacity = Tokens(2048), .cost = "cost.json", .steps_ahead = 3};
  EXPECT_EQ(c.plan, plan);
  EXPECT_EQ(c.memory, (MemoryConfig{.recompute = "full",
                                    .budget_bytes = Bytes(std::int64_t{3} << 30),
                                    .offload = "disk",
                                    .offload_path = "/scratch",
                                    .offload_bytes_per_second = 2e9}));
  const OptimizerConfig optimizer = {.lr = 0.002,
                                     .min_lr = 0,
                                     .warmup_steps = 7,
                                     .beta1 = 0,
                                     .beta2 = 0.999,
                                     .eps = 1e-6,
                                     .weight_decay = 0,
                                     .clip_grad = 0};
  EXPECT_EQ(c.optimizer, optimizer);
  const RunConfig train = {.steps = 0,
                           .out = "else where/\"quoted\"\\",
                           .ranks = 7,
                           .dtype = "float64",
                           .seed = 3,
                           .threads_per_rank = 2,
                           .log_interval = 10,
                           .bucket_bytes = Bytes(1 << 20),
                           .attention = "reference",
                           .save_interval = 5,
                           .keep_last = 0};
  EXPECT_EQ(c.train, train);
  EXPECT_EQ(c.comm, (CommConfig{.wait_limit_s = 0.25, .check_messages = false}));
  EXPECT_EQ(parse_train_config(to_toml(c), "effective.toml", {}), c);
}

TEST(TrainConfig, ThePrintedConfigurationReadsBackForAwkwardNumbersAndTexts) {
  for (const char* lr : {"0.1", "1e-300", "123456789012345680", "3.0000000000000004e-4"}) {
    const TrainConfig config = smallest({{"optimizer.lr", lr}, {"optimizer.min_lr", "0"}});
    EXPECT_EQ(parse_train_config(to_toml(config), "x", {}), config) << lr;
  }
  for (const char* out : {"tab\there", "line\nbreak", "\x7f", "f\xc3\xbcr", "'''", "#", " "}) {
    const TrainConfig config = smallest({{"train.out", out}});
    EXPECT_EQ(config.train.out, out);
    EXPECT_EQ(parse_train_config(to_toml(config), "x", {}), config) << out;
  }
}

TEST(TrainConfig, CountsInAFileAreIntegersOrTextsWithASuffix) {
  const TrainConfig config =
      smallest_and("max_context = \"12K\"\nglobal_batch_tokens = 1_000_000\n");
  EXPECT_EQ(config.data.max_context, Tokens(12288));
  EXPECT_EQ(config.data.global_batch_tokens, Tokens(1000000));
}

TEST(TrainConfig, AWholeNumberIsAlsoARealNumber) {
  EXPECT_EQ(smallest_and("[comm]\nwait_limit_s = 3\n").comm.wait_limit_s, 3.0);
}

TEST(TrainConfig, OverridesWinOverTheFileAndTheLastOneWins) {
  const TrainConfig config = smallest({{"model.num_layers", "5"}, {"model.num_layers", "6"}});
  EXPECT_EQ(config.model.num_layers, 6);
}

TEST(TrainConfig, RangeEdgesThatAreLegalAreAccepted) {
  EXPECT_EQ(smallest({{"train.ranks", "1"}}).train.ranks, 1);
  EXPECT_EQ(smallest({{"train.bucket_bytes", "8"}}).train.bucket_bytes, Bytes(8));
  EXPECT_EQ(smallest({{"optimizer.lr", "0"}, {"optimizer.min_lr", "0"}}).optimizer.lr, 0);
  EXPECT_EQ(smallest({{"optimizer.min_lr", "3e-4"}}).optimizer.min_lr, 3e-4);
  EXPECT_EQ(smallest({{"plan.capacity", "1"}}).plan.capacity, Tokens(1));
  EXPECT_EQ(smallest({{"plan.capacity", "0"}}).plan.capacity, Tokens(0));
  EXPECT_EQ(smallest({{"memory.budget_bytes", "0"}}).memory.budget_bytes, Bytes(0));
  EXPECT_EQ(smallest({{"memory.budget_bytes", "4G"}}).memory.budget_bytes,
            Bytes(std::int64_t{4} << 30));
  EXPECT_EQ(smallest({{"data.global_batch_tokens", "16K"}}).data.global_batch_tokens,
            Tokens(16384));
  EXPECT_EQ(smallest({{"model.head_dim", "2"}}).model.head_dim, 2);
  EXPECT_EQ(smallest({{"plan.cost", ""}}).plan.cost, "");
}

TEST(TrainConfig, OverridesAloneMakeAConfiguration) {
  const std::vector<std::string> arguments = {"--model.hidden_size",
                                              "64",
                                              "--model.num_layers=2",
                                              "--model.num_heads",
                                              "4",
                                              "--model.num_kv_heads=4",
                                              "--model.head_dim",
                                              "16",
                                              "--model.intermediate_size",
                                              "128",
                                              "--data.corpus=c=d",
                                              "--plan.cost="};
  const auto overrides = parse_overrides(arguments);
  const TrainConfig config = load_train_config("", overrides);
  EXPECT_EQ(config.model.head_dim, 16);
  EXPECT_EQ(config.data.corpus, "c=d");
  EXPECT_EQ(config.plan.cost, "");
}

TEST(TrainConfig, FilesWithByteOrderMarkAndCarriageReturnsRead) {
  std::string text = "\xef\xbb\xbf";
  for (const char c : kSmallest) text += c == '\n' ? "\r\n" : std::string(1, c);
  EXPECT_EQ(parse_train_config(text, "x", {}), smallest());
}

TEST(TrainConfig, DiffShowsBothValuesInTableOrder) {
  const auto entries =
      diff(smallest(), smallest({{"train.dtype", "float64"}, {"optimizer.lr", "0.5"}}));
  EXPECT_THAT(entries, ElementsAre(ConfigDifference{"optimizer.lr", "0.0003", "0.5"},
                                   ConfigDifference{"train.dtype", "\"float32\"", "\"float64\""}));
  EXPECT_TRUE(diff(smallest(), smallest()).empty());
}

TEST(TrainConfig, HelpNamesEveryKeyWithItsMeaning) {
  const std::string help = train_config_help();
  for (const ConfigField& field : config_fields()) {
    EXPECT_THAT(help, HasSubstr("--" + field.key() + " "));
    EXPECT_FALSE(field.help.empty()) << field.key();
    EXPECT_THAT(help, HasSubstr(std::string(field.help)));
  }
  EXPECT_THAT(help, HasSubstr("a number of at least 0 and below 1; default 0.95"));
}

TEST(TrainConfig, TheDocumentationListsEveryKeyWithItsDefaultAndRange) {
  const std::string page =
      read_text_file(std::filesystem::path(WEFT_SOURCE_DIR) / "docs/configuration.md");
  const TrainConfig defaults;
  for (const ConfigField& field : config_fields()) {
    const std::string fallback =
        field.required ? "required" : fmt::format("`{}`", format_field(field, defaults));
    EXPECT_THAT(page, HasSubstr(fmt::format("| `{}` | {} | {} | {} |", field.key(),
                                            describe_expected(field), fallback, field.help)));
  }
}

TEST(TrainConfig, TheDemoConfigurationIsValid) {
  const TrainConfig config =
      load_train_config(std::filesystem::path(WEFT_SOURCE_DIR) / "configs/demo.toml", {});
  EXPECT_EQ(config.data.max_context, Tokens(16384));
  EXPECT_EQ(config.plan.capacity, Tokens(4096));
  EXPECT_EQ(config.data.over_long, "split");
  EXPECT_EQ(config.train.ranks, 4);
}

}  // namespace
}  // namespace weft
