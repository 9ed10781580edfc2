#include "model/parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "base/token_range.h"
#include "tests/support/tiny_model.h"

namespace weft {
namespace {

using ::testing::HasSubstr;
using testing::tiny_config;

TEST(ModelConfig, RefusesImpossibleShapesByField) {
  const auto message = [](auto change) {
    ModelConfig config = tiny_config(2, true);
    change(config);
    try {
      check_model_config(config);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(message([](ModelConfig&) {}), "accepted");
  EXPECT_THAT(message([](ModelConfig& c) { c.num_kv_heads = 3; }),
              HasSubstr("num_kv_heads: expected a divisor"));
  EXPECT_THAT(message([](ModelConfig& c) { c.head_dim = 5; }),
              HasSubstr("head_dim: expected an even number"));
  EXPECT_THAT(message([](ModelConfig& c) { c.num_layers = 0; }),
              HasSubstr("num_layers: expected a positive"));
  EXPECT_THAT(message([](ModelConfig& c) { c.vocab_size = -1; }), HasSubstr("vocab_size"));
  EXPECT_THAT(message([](ModelConfig& c) { c.rms_norm_eps = std::nan(""); }),
              HasSubstr("rms_norm_eps"));
  EXPECT_THAT(message([](ModelConfig& c) { c.rope_theta = 0; }), HasSubstr("rope_theta"));
}

TEST(ModelConfig, CountsTheParametersOfLlama2With7BillionWeights) {
  const ModelConfig llama{.vocab_size = 32000,
                          .hidden_size = 4096,
                          .num_layers = 32,
                          .num_heads = 32,
                          .num_kv_heads = 32,
                          .head_dim = 128,
                          .intermediate_size = 11008,
                          .tie_word_embeddings = false};
  EXPECT_EQ(num_parameters(llama), 6'738'415'616);
}

TEST(ModelConfig, C104CountsFlopsFromTheSumOfSquaredLengthsOfAPack) {
  const ModelConfig config = tiny_config(2, true);
  // By hand: q and o 32*32, k and v 32*8, three of 32*40; two layers; head 50*32.
  const std::int64_t weights = 2 * (2 * 32 * 32 + 2 * 32 * 8 + 3 * 32 * 40) + 50 * 32;
  const auto flops = [&](std::int64_t num_sequences, std::int64_t length) {
    const std::int64_t pairs = num_sequences * causal_work({0, length});
    return training_flops(config, Tokens(num_sequences * length), pairs).value();
  };
  const std::int64_t packed_pairs = 8 * (512 * 513 / 2);
  const std::int64_t single_pairs = 4096LL * 4097 / 2;
  // Per pair and layer: QK^T and PV are 2 * 8 * 4 each forward, twice that backward.
  EXPECT_EQ(flops(8, 512), 6 * weights * 4096 + 2 * 3 * (2 * 2 * 8 * 4) * packed_pairs);
  EXPECT_EQ(flops(1, 4096), 6 * weights * 4096 + 2 * 3 * (2 * 2 * 8 * 4) * single_pairs);
  EXPECT_THROW(training_flops(config, Tokens(INT64_MAX / 2), 0), UserError);
}

TEST(ParameterSet, NamesAndPlacesEachElementOnce) {
  for (const bool tied : {true, false}) {
    const ParameterSet parameters(tiny_config(2, tied), at::kFloat);
    std::int64_t offset = 0;
    for (const ParameterInfo& info : parameters.infos()) {
      EXPECT_EQ(info.offset, offset) << info.name;
      offset += info.size;
    }
    EXPECT_EQ(offset, parameters.size());
    EXPECT_EQ(parameters.size(), num_parameters(tiny_config(2, tied)));
    EXPECT_EQ(parameters.infos().size(), 1U + 2 * 9 + 1 + (tied ? 0 : 1));
  }
}

TEST(ParameterSet, ValuesAndGradientsAreViewsOfTheFlatBuffers) {
  ParameterSet parameters(tiny_config(2, false), at::kDouble);
  const std::size_t index = parameters.index_of("model.layers.1.self_attn.k_proj.weight");
  const ParameterInfo& info = parameters.infos()[index];
  EXPECT_EQ(info.shape, (std::vector<std::int64_t>{8, 32}));
  parameters.value(index).fill_(2);
  parameters.gradient(index).fill_(3);
  EXPECT_EQ(parameters.flat_values().sum().item<double>(), 2.0 * 8 * 32);
  EXPECT_EQ(parameters.flat_gradients()[info.offset].item<double>(), 3);
  parameters.zero_gradients();
  EXPECT_EQ(parameters.flat_gradients().abs().sum().item<double>(), 0);
  EXPECT_THROW(parameters.index_of("model.layers.2.self_attn.k_proj.weight"), InternalError);
}

TEST(ParameterSet, NeighboursStackIntoOneMatrix) {
  const ParameterSet parameters(tiny_config(2, false), at::kDouble);
  parameters.flat_values().copy_(at::arange(parameters.size(), at::kDouble));
  const auto index = [&](const char* name) {
    return parameters.index_of(fmt::format("model.layers.1.{}.weight", name));
  };
  const auto value = [&](const char* name) { return parameters.value(index(name)); };
  EXPECT_TRUE(parameters.stacked_value(index("self_attn.q_proj"), 3)
                  .equal(at::cat({value("self_attn.q_proj"), value("self_attn.k_proj"),
                                  value("self_attn.v_proj")})));
  parameters.stacked_gradient(index("mlp.gate_proj"), 2).fill_(4);
  EXPECT_TRUE((parameters.gradient(index("mlp.up_proj")) == 4).all().item<bool>());
  EXPECT_TRUE((parameters.gradient(index("mlp.down_proj")) == 0).all().item<bool>());
  EXPECT_THROW(parameters.stacked_value(index("mlp.up_proj"), 2), InternalError);  // other width
  EXPECT_THROW(parameters.stacked_value(index("self_attn.v_proj"), 3), InternalError);  // a norm
}

TEST(ParameterSet, OnlyMatricesDecay) {
  const ParameterSet parameters(tiny_config(2, false), at::kFloat);
  for (const ParameterInfo& info : parameters.infos()) {
    EXPECT_EQ(info.decays, info.name.find("norm") == std::string::npos) << info.name;
  }
}

TEST(ParameterSet, InitialWeightsAreAFunctionOfSeedNameAndElement) {
  const ModelConfig config = tiny_config(2, false);
  ParameterSet in_double(config, at::kDouble);
  ParameterSet in_float(config, at::kFloat);
  in_double.initialize(5);
  in_float.initialize(5);
  EXPECT_TRUE(in_double.flat_values().to(at::kFloat).equal(in_float.flat_values()));
  const auto element = [&](std::string_view name, std::int64_t i) {
    return in_double.value(in_double.index_of(name)).flatten()[i].item<double>();
  };
  const std::string q = "model.layers.0.self_attn.q_proj.weight";
  const std::string down = "model.layers.1.mlp.down_proj.weight";
  EXPECT_EQ(element(q, 77), 0.02 * RandomStream(5, q).normal(77));
  EXPECT_EQ(element(down, 3), 0.02 / std::sqrt(4.0) * RandomStream(5, down).normal(3));
  EXPECT_EQ(element("model.norm.weight", 31), 1);
  in_float.initialize(6);
  EXPECT_FALSE(in_double.flat_values().to(at::kFloat).equal(in_float.flat_values()));
}

}  // namespace
}  // namespace weft
