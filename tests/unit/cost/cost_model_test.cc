#include "cost/cost_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "cost/reference_cost.h"
#include "tests/support/edited_file.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

class CostFile : public testing::EditedFile {
 protected:
  CostFile()
      : EditedFile(
            "cost", [](const Path& path) { save_cost_model(path, reference_cost_7b()); },
            load_cost_model) {}
};

TEST_F(CostFile, ReadsBackExactlyWhatWasWritten) {
  CostModel cost = reference_cost_7b();
  cost.attention_ns_per_pair = 1.0 / 3;
  cost.name = "a \"quoted\" name";
  save_cost_model(path_, cost);
  EXPECT_EQ(load_cost_model(path_), cost);
}

TEST_F(CostFile, ReferenceFileHoldsTheReferenceValues) {
  EXPECT_EQ(load_cost_model(std::string(WEFT_SOURCE_DIR) + "/configs/cost/reference-7b.json"),
            reference_cost_7b());
}

TEST_F(CostFile, TermsOfOffloadMayBeLeftOutAndAreReadBackWhereTheyAreStated) {
  CostModel cost = reference_cost_7b();
  save_cost_model(path_, cost);
  EXPECT_EQ(read_text_file(path_).find("offload"), std::string::npos);
  EXPECT_EQ(load_cost_model(path_).offload_bytes_per_second, 0);
  cost.activation_bytes_per_token = 65536;
  cost.offload_bytes_per_second = 13e9;
  cost.host_bytes_per_rank = 1e12;
  save_cost_model(path_, cost);
  EXPECT_EQ(load_cost_model(path_), cost);
  const CostModel shipped = load_cost_model(std::filesystem::path(WEFT_SOURCE_DIR) /
                                            "configs/cost/reference-7b-offload.json");
  cost.host_bytes_per_rank = 0;
  cost.name = shipped.name;
  cost.source = shipped.source;
  EXPECT_EQ(shipped, cost);
}

TEST_F(CostFile, MeasuredTermsAreWrittenWhereTheyAreKnownAndReadBack) {
  CostModel cost = reference_cost_7b();
  save_cost_model(path_, cost);
  for (const char* key : {"ring_step", "gradient_bytes", "reduce_", "optimizer_", "spread_"})
    EXPECT_EQ(read_text_file(path_).find(key), std::string::npos) << key;
  cost.ring_step_ns_per_token = 850.5;
  cost.ring_step_fixed_ns = 2e4;
  cost.gradient_bytes = 1.6e6;
  cost.reduce_ns_per_byte = 1.2;
  cost.reduce_fixed_ns = 1.5e5;
  cost.optimizer_ns_per_byte = 0.2;
  cost.spread_ns = 3.5e5;
  save_cost_model(path_, cost);
  EXPECT_EQ(load_cost_model(path_), cost);
}

TEST_F(CostFile, HopsInsideANodeAreThoseBetweenNodesWhereAFileSaysNothingOfThem) {
  CostModel cost = reference_cost_7b();
  save_cost_model(path_, cost);
  EXPECT_EQ(read_text_file(path_).find("node_hop"), std::string::npos);
  EXPECT_FALSE(load_cost_model(path_).has_node_hops());
  EXPECT_EQ(cost.hop(true).ns_per_token, cost.hop_ns_per_token);
  cost.node_hop_fixed_ns = 0;  // free is not the same as unknown
  save_cost_model(path_, cost);
  EXPECT_EQ(load_cost_model(path_), cost);
  EXPECT_TRUE(cost.has_node_hops());
  EXPECT_EQ(cost.hop(true).fixed_ns, 0);
  EXPECT_EQ(cost.hop(true).ns_per_token, cost.hop_ns_per_token);
  EXPECT_EQ(cost.hop(false).fixed_ns, cost.hop_fixed_ns);
  cost.node_hop_ns_per_token = 7.25;
  save_cost_model(path_, cost);
  EXPECT_EQ(load_cost_model(path_), cost);
  const CostModel shipped = load_cost_model(std::filesystem::path(WEFT_SOURCE_DIR) /
                                            "configs/cost/reference-7b-nodes.json");
  cost.node_hop_ns_per_token = cost.hop_ns_per_token / 4;
  cost.node_hop_fixed_ns = cost.hop_fixed_ns / 2;
  cost.name = shipped.name;
  cost.source = shipped.source;
  EXPECT_EQ(shipped, cost);
}

TEST_F(CostFile, HopsInsideANodeThatAreDearerThanOthersAreRefused) {
  const auto with = [&](const char* terms) {
    return error_after("\"hop_fixed_ns\": 20000.0,",
                       std::string("\"hop_fixed_ns\": 20000.0,") + terms);
  };
  EXPECT_THAT(with("\"node_hop_fixed_ns\": 20000.5,"),
              HasSubstr("\"node_hop_fixed_ns\" is 20000.5, expected 0 to \"hop_fixed_ns\", 20000"));
  EXPECT_THAT(with("\"node_hop_ns_per_token\": 1e4,"), HasSubstr("node_hop_ns_per_token"));
  EXPECT_THAT(with("\"node_hop_ns_per_token\": -1,"), HasSubstr("node_hop_ns_per_token"));
  EXPECT_EQ(with("\"node_hop_fixed_ns\": 20000,"), "no error");
  CostModel cost = reference_cost_7b();
  cost.node_hop_ns_per_token = 1e9;
  EXPECT_THROW(save_cost_model(path_, cost), UserError);
}

TEST_F(CostFile, ReferenceGivesTheTimesOfTheCaseStudy) {
  const CostModel cost = reference_cost_7b();
  EXPECT_NEAR(cost.linear_ns_per_token * 8192, 9.5e6, 1);
  EXPECT_NEAR(cost.attention_ns_per_pair * 8192 * 8192, 2.8e6, 1);
  EXPECT_NEAR(cost.hop_ns_per_token * 8192 + cost.hop_fixed_ns, 1.62e6, 1);
}

TEST_F(CostFile, UnknownKeyIsRefusedWithTheNearestOne) {
  const std::string error = error_after("\"fixed_ns\"", "\"fixd_ns\"");
  EXPECT_THAT(error, HasSubstr("unknown key \"fixd_ns\""));
  EXPECT_THAT(error, HasSubstr("did you mean \"fixed_ns\"?"));
}

TEST_F(CostFile, EveryOtherDamageIsNamed) {
  EXPECT_THAT(error_after("\"backward_ratio\": 2.5", "\"backward_ratio\": -2.5"),
              HasSubstr("backward_ratio"));
  EXPECT_THAT(error_after("\"num_layers\": 32", "\"num_layers\": 0"),
              HasSubstr("is 0, expected a whole number"));
  EXPECT_THAT(error_after("\"num_layers\": 32", "\"num_layers\": 2.5"),
              HasSubstr("is 2.5, expected a whole number"));
  for (const std::string wide : {"4294967328", "-4294967264", "18446744073709551615"}) {
    EXPECT_THAT(error_after("\"num_layers\": 32", "\"num_layers\": " + wide),
                HasSubstr("from 1 to 1000000"))
        << "32 in 32 bits";
  }
  EXPECT_THAT(error_after("\"num_layers\": 32,", ""), HasSubstr("\"num_layers\" is missing"));
  EXPECT_THAT(error_after("\"num_layers\": 32", "\"num_layers\": \"32\""), HasSubstr("num_layers"));
  EXPECT_THAT(error_after("\"backward_ratio\": 2.5", "\"backward_ratio\": \"2\""),
              HasSubstr("number"));
  EXPECT_THAT(error_after("\"backward_ratio\": 2.5", "\"backward_ratio\": 1e999"),
              HasSubstr("JSON"));
  EXPECT_THAT(error_after("weft.cost.v1", "weft.cost.v2"), HasSubstr("another version"));
  EXPECT_THAT(error_after("weft.cost.v1", "other"), HasSubstr("expected \"weft.cost.v1\""));
  EXPECT_THAT(error_after("{", "["), HasSubstr("not JSON"));
  EXPECT_THAT(error_after("{", std::string(100'000, '[')), HasSubstr("not JSON"));
  EXPECT_THAT(error_after("{", "{\"fixed_ns\": 3,"), HasSubstr("\"fixed_ns\" is there twice"));
}

TEST_F(CostFile, AFileCutOrChangedAnywhereIsReadOrRefusedByName) {
  const std::string whole = text_;
  for (std::size_t size = 0; size + 2 < whole.size(); ++size) {
    text_ = whole.substr(0, size);
    EXPECT_THAT(error_after("", ""), HasSubstr(path_.string())) << "cut to " << size;
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    text_ = whole;
    text_[at] = static_cast<char>(text_[at] ^ (1 << (at % 8)));
    const std::string error = error_after("", "");  // nothing but UserError may come out
    EXPECT_THAT(error, ::testing::AnyOf("no error", HasSubstr(path_.string()))) << "byte " << at;
  }
}

TEST_F(CostFile, RefusesToWriteWhatItWouldNotRead) {
  CostModel cost = reference_cost_7b();
  cost.fixed_ns = std::nan("");
  EXPECT_THROW(save_cost_model(path_, cost), UserError);
}

}  // namespace
}  // namespace weft
