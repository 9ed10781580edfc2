#include "checkpoint/hf_config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "tests/unit/checkpoint/temporary_directory.h"

namespace weft {
namespace {

const ModelConfig kConfig = {.vocab_size = 259,
                             .hidden_size = 192,
                             .num_layers = 4,
                             .num_heads = 6,
                             .num_kv_heads = 2,
                             .head_dim = 32,
                             .intermediate_size = 512,
                             .rope_theta = 500000,
                             .rms_norm_eps = 1e-6,
                             .tie_word_embeddings = false};

TEST(HfConfig, HoldsEveryFieldOfTheModelUnderItsHuggingFaceName) {
  const auto json =
      nlohmann::json::parse(hf_config_json(kConfig, {.dtype = at::kDouble,
                                                     .max_position_embeddings = Tokens(16384),
                                                     .bos_token_id = std::nullopt,
                                                     .eos_token_id = 256}));
  const nlohmann::json expected = {{"model_type", "llama"},
                                   {"architectures", {"LlamaForCausalLM"}},
                                   {"vocab_size", 259},
                                   {"hidden_size", 192},
                                   {"num_hidden_layers", 4},
                                   {"num_attention_heads", 6},
                                   {"num_key_value_heads", 2},
                                   {"head_dim", 32},
                                   {"intermediate_size", 512},
                                   {"rope_theta", 500000.0},
                                   {"rope_scaling", nullptr},
                                   {"rms_norm_eps", 1e-6},
                                   {"tie_word_embeddings", false},
                                   {"torch_dtype", "float64"},
                                   {"max_position_embeddings", 16384},
                                   {"hidden_act", "silu"},
                                   {"attention_bias", false},
                                   {"mlp_bias", false},
                                   {"attention_dropout", 0.0},
                                   {"bos_token_id", nullptr},
                                   {"eos_token_id", 256}};
  EXPECT_EQ(json, expected);
}

TEST(HfConfig, TheFileHoldsTheSameText) {
  const TemporaryDirectory directory;
  HfConfigOptions options;
  options.max_position_embeddings = Tokens(1);
  save_hf_config(directory / "config.json", kConfig, options);
  EXPECT_EQ(read_text_file(directory / "config.json"), hf_config_json(kConfig, options));
  EXPECT_EQ(nlohmann::json::parse(hf_config_json(kConfig, options))["torch_dtype"], "float32");
}

TEST(HfConfig, ADtypeThatNoModelIsSavedInIsRefused) {
  HfConfigOptions options;
  options.max_position_embeddings = Tokens(8);
  options.dtype = at::kInt;
  EXPECT_THROW(hf_config_json(kConfig, options), InternalError);
}

}  // namespace
}  // namespace weft
