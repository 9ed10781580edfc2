#include "cost/model_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

class HfConfig : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::path(::testing::TempDir()) /
        ("hf_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  ModelShape read(const std::string& text) {
    std::ofstream(folder_ / "config.json") << text;
    return find_model(folder_.string());
  }
  std::string error(const std::string& text) {
    try {
      read(text);
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  }

  std::filesystem::path folder_;
};

constexpr const char* kLlama3 = R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
  "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
  "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 128256,
  "rope_scaling": {"factor": 8.0}, "tie_word_embeddings": false, "torch_dtype": "bfloat16"})";

TEST_F(HfConfig, ALlamaHasTheParametersThatItsAuthorsState) {
  const ModelShape model = read(kLlama3);
  EXPECT_EQ(model.head_dim, 128);
  EXPECT_EQ(num_parameters(model), 8030261248.0);  // Meta-Llama-3-8B
  EXPECT_EQ(num_active_parameters(model), num_parameters(model));
}

TEST_F(HfConfig, AMixtureHasItsExpertsAndPassesSomeOfThem) {
  const ModelShape model = read(R"({"model_type": "mixtral", "hidden_size": 4096,
    "intermediate_size": 14336, "num_attention_heads": 32, "num_hidden_layers": 32,
    "num_key_value_heads": 8, "num_local_experts": 8, "num_experts_per_tok": 2,
    "vocab_size": 32000})");
  EXPECT_EQ(num_parameters(model), 46702792704.0);  // Mixtral-8x7B
  EXPECT_NEAR(num_active_parameters(model), 12.9e9, 0.05e9);
  ModelShape preset = find_model("mixtral-8x7b");
  preset.name = model.name;
  preset.source = model.source;
  EXPECT_EQ(model, preset);
}

TEST_F(HfConfig, AQwenMixtureHasExpertsOfTheirOwnSizeAndASharedOne) {
  const ModelShape model = read(R"({"model_type": "qwen2_moe", "hidden_size": 2048,
    "intermediate_size": 5632, "moe_intermediate_size": 1408, "num_attention_heads": 16,
    "num_hidden_layers": 24, "num_key_value_heads": 16, "num_experts": 60,
    "num_experts_per_tok": 4, "shared_expert_intermediate_size": 5632, "vocab_size": 151936})");
  EXPECT_NEAR(num_parameters(model), 14.3e9, 0.05e9);  // Qwen1.5-MoE-A2.7B
  EXPECT_NEAR(num_active_parameters(model), 2.7e9, 0.05e9);
}

TEST_F(HfConfig, AHeadSizeOfItsOwnAndTiedEmbeddingsCount) {
  const ModelShape model = read(R"({"model_type": "qwen3", "hidden_size": 1024, "head_dim": 128,
    "intermediate_size": 3072, "num_attention_heads": 16, "num_hidden_layers": 28,
    "num_key_value_heads": 8, "tie_word_embeddings": true, "vocab_size": 151936})");
  EXPECT_EQ(model.head_dim, 128);
  EXPECT_NEAR(num_parameters(model), 0.596e9, 0.001e9);  // Qwen3-0.6B
}

TEST_F(HfConfig, WhatIsMissingOrUnknownIsNamed) {
  EXPECT_THAT(error("[]"), HasSubstr("expected a JSON object"));
  EXPECT_THAT(error("{}"), HasSubstr("\"model_type\" is missing"));
  EXPECT_THAT(error(R"({"model_type": "gpt2"})"), HasSubstr("expected one of llama, mistral"));
  EXPECT_THAT(error(R"({"model_type": "llama"})"), HasSubstr("\"num_hidden_layers\" is missing"));
  std::string text = kLlama3;
  text.replace(text.find("\"num_key_value_heads\": 8"), 24, "\"num_key_value_heads\": 5");
  EXPECT_THAT(error(text), HasSubstr("5 key/value heads must divide the 32 heads"));
  text = kLlama3;
  text.replace(text.find("4096"), 4, "1e99");
  EXPECT_THAT(error(text), HasSubstr("\"hidden_size\" is"));
  EXPECT_THAT(error(R"({"model_type": "qwen3_moe", "num_hidden_layers": 2, "hidden_size": 64,
    "num_attention_heads": 2, "vocab_size": 10, "num_experts": 4, "num_experts_per_tok": 2,
    "moe_intermediate_size": 32, "decoder_sparse_step": 2})"),
              HasSubstr("layers are all alike"));
}

TEST(ModelPresets, HaveTheSizesOfTheirNames) {
  const double billions[] = {5.9, 11.3, 28.4, 69, 46.7, 140.6};
  ASSERT_EQ(model_presets().size(), 6u);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(num_parameters(model_presets()[i]) / 1e9, billions[i], 0.04 * billions[i])
        << model_presets()[i].name;
  }
  EXPECT_NEAR(num_active_parameters(find_model("mixtral-8x22b")) / 1e9, 39, 0.5);
  EXPECT_THROW(find_model("llama-8b"), UserError);
}

TEST(ModelCounts, FollowFromTheShapeByHand) {
  const ModelShape model{.name = "tiny",
                         .source = "by hand",
                         .num_layers = 3,
                         .hidden_size = 8,
                         .num_heads = 4,
                         .num_kv_heads = 2,
                         .head_dim = 2,
                         .intermediate_size = 16,
                         .vocab_size = 10};
  // Projections 8x8 + 2 of 8x4 + 8x8 = 192; feed-forward 3 * 8 * 16 = 384.
  EXPECT_EQ(attention_weights(model), 192);
  EXPECT_EQ(active_layer_weights(model), 576);
  EXPECT_EQ(num_parameters(model), 3 * (576 + 16) + 8 + 2 * 80);
  EXPECT_EQ(layer_flops_per_token(model), 1152);
  EXPECT_EQ(layer_flops_per_pair(model), 32);  // q.k and p.v: 2 * 2 * 4 heads * 2
  EXPECT_EQ(kv_bytes_per_token(model), 16);    // 2 tensors, 2 heads of 2 elements of 2 bytes
  EXPECT_EQ(training_flops(model, 5, 15), 3 * (5 * (3 * 1152 + 160) + 15 * 3 * 32));
  EXPECT_EQ(activation_bytes_per_token(model), 2 * (4 * 8 + 2 * 8 + 2 * 4 + 3 * 16) + 4 * 4);
}

}  // namespace
}  // namespace weft
