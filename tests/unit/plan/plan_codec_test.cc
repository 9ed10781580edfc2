#include "plan/plan_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "tests/support/random_plan.h"
#include "tests/unit/plan/reseal.h"

namespace weft {
namespace {

using testing::AllOf;
using testing::HasSubstr;

StepPlan example_plan(std::uint64_t seed) {
  RandomPlanOptions options;
  options.seed = seed;
  options.num_ranks = 5;
  options.capacity = Tokens(200);
  options.sequences = random_sequences(seed, 20, 700);
  options.weighting = seed % 2 == 0 ? LossWeighting::kToken : LossWeighting::kSample;
  options.allow_offload = true;
  StepPlan plan = random_plan(options);
  plan.step = 41 + static_cast<std::int64_t>(seed);
  plan.makespan = 1200_us;
  plan.lower_bound = 1000_us;
  return plan;
}

std::string refusal(std::span<const std::byte> bytes) {
  try {
    decode_plan(bytes, "some.plan");
    return "accepted";
  } catch (const UserError& error) {
    return error.what();
  }
}

TEST(PlanCodec, EveryPlanIsReadBackAsItWas) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const StepPlan plan = example_plan(seed);
    EXPECT_EQ(decode_plan(encode_plan(plan), "memory"), plan) << "seed " << seed;
  }
  EXPECT_EQ(decode_plan(encode_plan(StepPlan{}), "memory"), StepPlan{});
}

// Offset of num_layers when the strategy's name has `name` bytes and no rank its own capacity.
std::size_t num_layers_at(std::size_t name) { return kPayloadAt + 8 + 8 + 4 + name + 4 + 8 + 8; }

TEST(PlanCodec, PipelinesAreVersion3AndPlansWithoutThemKeepTheirBytes) {
  StepPlan plan = example_plan(2);
  plan.num_layers = 8;
  const std::vector<std::byte> without = encode_plan(plan);
  EXPECT_EQ(without[8], std::byte{2});
  const Hash128 hash = plan_hash(plan);
  plan.pipeline_stages = 4;
  std::vector<std::byte> with = encode_plan(plan);
  EXPECT_EQ(with[8], std::byte{3});
  EXPECT_EQ(decode_plan(with, "memory"), plan);
  EXPECT_NE(plan_hash(plan), hash);
  // Four bytes more, after num_layers; all others stay.
  ASSERT_EQ(with.size(), without.size() + 4);
  const std::size_t at = num_layers_at(plan.strategy.size()) + 4;
  EXPECT_TRUE(std::equal(with.begin() + kPayloadAt, with.begin() + static_cast<std::ptrdiff_t>(at),
                         without.begin() + kPayloadAt));
  EXPECT_TRUE(std::equal(with.begin() + static_cast<std::ptrdiff_t>(at) + 4, with.end(),
                         without.begin() + static_cast<std::ptrdiff_t>(at)));
  for (const std::int32_t stages : {1, 0, -1}) {
    overwrite(with, at, stages);
    reseal(with);
    EXPECT_THAT(refusal(with), HasSubstr(fmt::format("{} pipeline stages", stages)));
  }
  EXPECT_EQ(decode_plan(without, "memory").pipeline_stages, 1);
}

TEST(PlanCodec, InterleavedPipelinesAreVersion4AndOthersKeepTheirBytes) {
  StepPlan plan = example_plan(2);
  plan.num_layers = 8;
  plan.pipeline_stages = 4;
  const std::vector<std::byte> without = encode_plan(plan);
  EXPECT_EQ(without[8], std::byte{3});
  const Hash128 hash = plan_hash(plan);
  plan.virtual_stages = 2;
  std::vector<std::byte> with = encode_plan(plan);
  EXPECT_EQ(with[8], std::byte{4});
  EXPECT_EQ(decode_plan(with, "memory"), plan);
  EXPECT_NE(plan_hash(plan), hash);
  ASSERT_EQ(with.size(), without.size() + 4);
  const std::size_t at = num_layers_at(plan.strategy.size()) + 8;
  EXPECT_TRUE(std::equal(with.begin() + static_cast<std::ptrdiff_t>(at) + 4, with.end(),
                         without.begin() + static_cast<std::ptrdiff_t>(at)));
  for (const std::int32_t stages : {1, 0, -1}) {
    overwrite(with, at, stages);
    reseal(with);
    EXPECT_THAT(refusal(with), HasSubstr(fmt::format("{} virtual stages", stages)));
  }
  EXPECT_EQ(decode_plan(without, "memory").virtual_stages, 1);
}

TEST(PlanCodec, ExtremeValuesSurvive) {
  StepPlan plan;
  plan.step = std::numeric_limits<std::int64_t>::max();
  plan.seed = std::numeric_limits<std::uint64_t>::max();
  plan.strategy = std::string("a\0b\xff", 4);
  plan.num_ranks = -1;
  plan.capacity = Tokens(std::numeric_limits<std::int64_t>::min());
  plan.sequences = {{-5, Tokens(-7), 1}};
  plan.groups = {{-1, -2, {}}, {7, 8, {Rank(-3), Rank(9)}}};
  plan.ranks = {{}, {MicroBatch{-4, 0.1, {}}, MicroBatch{0, 1, {{-9, -8, {7, -6}}}}}};
  EXPECT_EQ(decode_plan(encode_plan(plan), "memory"), plan) << "meaning is for validate()";
}

TEST(PlanCodec, TheBytesAreThoseOfTheTable) {
  StepPlan plan;
  plan.step = 1;
  plan.seed = 2;
  plan.strategy = "hdp";
  plan.num_ranks = 3;
  plan.capacity = 4_tok;
  plan.rank_capacity = {20_tok};
  plan.num_layers = 5;
  plan.weighting = LossWeighting::kSample;
  plan.makespan = 7_ns;
  plan.lower_bound = 6_ns;
  plan.num_slots = 8;
  plan.sequences = {{9, 10_tok, 11}};
  plan.groups = {{12, 13, {Rank(14)}}};
  plan.ranks = {{MicroBatch{15, 0.5, {{16, 17, {18, 19}}}}}};
  const std::vector<int> expected = {
      'W', 'E', 'F', 'T', 'P', 'L', 'A', 'N', 2, 0, 0, 0, 0, 0, 0, 0,  // magic, version, reserved
      0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,                  // length, checksum: below
      1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0,                  // step, seed
      3, 0, 0, 0, 'h', 'd', 'p', 3, 0, 0, 0,                           // strategy, num_ranks
      4, 0, 0, 0, 0, 0, 0, 0,                                          // capacity
      1, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0,                 // rank_capacity
      5, 0, 0, 0, 1,                                                   // num_layers,
                                                                       // weighting
      7, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0,      // makespan, bound, num_slots
      1, 0, 0, 0, 0, 0, 0,
      0,  // sequences
      9, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0,
      0,  // groups
      12, 0, 0, 0, 13, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 14, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0,
      0, 0, 0, 0, 0,
      0,                                                 // ranks, micro-batches of rank 0
      15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xe0, 0x3f,         // slot, offload ratio 0.5
      1, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 17, 0, 0, 0,  // pieces
      18, 0, 0, 0, 0, 0, 0, 0, 19, 0, 0, 0, 0, 0, 0, 0};
  std::vector<std::byte> bytes;
  for (const int value : expected) bytes.push_back(static_cast<std::byte>(value));
  reseal(bytes);
  EXPECT_EQ(encode_plan(plan), bytes);
  EXPECT_EQ(plan_hash(plan), hash128(std::span(bytes).subspan(kPayloadAt)));
}

TEST(PlanCodec, EqualPlansHaveEqualHashesAndAnyChangeShows) {
  const StepPlan plan = example_plan(2);
  EXPECT_EQ(plan_hash(plan), plan_hash(decode_plan(encode_plan(plan), "memory")));
  const auto changed = [&](const auto& change) {
    StepPlan other = plan;
    change(other);
    return plan_hash(other);
  };
  EXPECT_NE(plan_hash(plan), changed([](StepPlan& p) { ++p.step; }));
  EXPECT_NE(plan_hash(plan), changed([](StepPlan& p) { p.strategy += "x"; }));
  EXPECT_NE(plan_hash(plan), changed([](StepPlan& p) { p.makespan += 1_ns; }));
  EXPECT_NE(plan_hash(plan), changed([](StepPlan& p) { ++p.sequences.back().id; }));
  EXPECT_NE(plan_hash(plan), changed([](StepPlan& p) { ++p.groups.at(0).slot_idx; }));
  EXPECT_NE(plan_hash(plan), changed([](StepPlan& p) { p.ranks.emplace_back(); }));

  StepPlan zero;
  zero.ranks = {{MicroBatch{0, 0.0, {}}}};
  StepPlan minus_zero = zero;
  minus_zero.ranks[0][0].offload_ratio = -0.0;
  ASSERT_EQ(zero, minus_zero);
  EXPECT_EQ(plan_hash(zero), plan_hash(minus_zero));
}

// It would equal a plan whose bytes, and so whose hash, are others.
TEST(PlanCodec, ANegativeZeroIsRefusedWithItsOffset) {
  StepPlan plan;
  plan.ranks = {{MicroBatch{0, 0.0, {}}}};
  std::vector<std::byte> bytes = encode_plan(plan);
  const std::size_t ratio_at = bytes.size() - sizeof(std::uint64_t) - sizeof(double);
  overwrite(bytes, ratio_at, -0.0);
  reseal(bytes);
  EXPECT_THAT(refusal(bytes), AllOf(HasSubstr("some.plan: at offset"), HasSubstr("ratio of -0")));
  overwrite(bytes, ratio_at, 0.5);
  reseal(bytes);
  EXPECT_EQ(refusal(bytes), "accepted");
}

// The JSON view could not name it.
TEST(PlanCodec, AnUnknownLossWeightingIsRefused) {
  for (const int code : {2, 24, 255}) {
    StepPlan plan = example_plan(0);
    plan.weighting = static_cast<LossWeighting>(code);
    EXPECT_THAT(refusal(encode_plan(plan)), HasSubstr(fmt::format("loss weighting {}", code)));
  }
}

TEST(PlanCodec, DamagedFramesAreRefusedWithTheirNameAndReason) {
  const std::vector<std::byte> whole = encode_plan(example_plan(1));
  const auto damaged = [&](const auto& damage) {
    std::vector<std::byte> bytes = whole;
    damage(bytes);
    return refusal(bytes);
  };
  EXPECT_EQ(refusal(whole), "accepted");
  EXPECT_THAT(damaged([](auto& b) { b[0] = std::byte{'X'}; }),
              AllOf(HasSubstr("some.plan: "), HasSubstr("not a Weft plan")));
  EXPECT_THAT(damaged([](auto& b) { b[8] = std::byte{5}; }),
              AllOf(HasSubstr("version 5 is newer than version 4"), HasSubstr("newer Weft")));
  EXPECT_THAT(damaged([](auto& b) { b[8] = std::byte{1}; }),
              AllOf(HasSubstr("version 1 is older than version 2"), HasSubstr("plan again")));
  EXPECT_THAT(damaged([](auto& b) { b[12] = std::byte{1}; }), HasSubstr("reserved"));
  EXPECT_THAT(damaged([](auto& b) { b[kChecksumAt] ^= std::byte{1}; }), HasSubstr("checksum"));
  EXPECT_THAT(damaged([](auto& b) { b.back() ^= std::byte{1}; }), HasSubstr("checksum"));
  EXPECT_THAT(damaged([](auto& b) { b.push_back(std::byte{0}); }), HasSubstr("trailing"));
  EXPECT_THAT(damaged([](auto& b) {
                b.push_back(std::byte{0});
                reseal(b);
              }),
              HasSubstr("1 unexpected bytes"));
}

TEST(PlanCodec, EveryFlippedBitIsRefused) {
  const std::vector<std::byte> whole = encode_plan(example_plan(1));
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::vector<std::byte> bytes = whole;
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_NE(refusal(bytes), "accepted") << "bit " << bit;
  }
}

TEST(PlanCodec, EveryTruncationIsRefused) {
  const std::vector<std::byte> whole = encode_plan(example_plan(1));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    std::vector<std::byte> bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_NE(refusal(bytes), "accepted") << size << " bytes";
    if (size < kPayloadAt) continue;
    reseal(bytes);
    EXPECT_NE(refusal(bytes), "accepted") << size << " bytes, resealed";
  }
}

TEST(PlanCodec, ADamagedCountNeverBecomesALargeAllocation) {
  StepPlan plan;
  plan.sequences = {{1, 2_tok, 1}};
  plan.ranks = {{MicroBatch{0, 0, {{0, kNoGroup, {0, 2}}}}}};
  const std::vector<std::byte> whole = encode_plan(plan);
  // Counts in the order of the file: rank capacities, sequences, groups, ranks, micro-batches,
  // pieces.
  constexpr std::size_t kCapacitiesAt = kPayloadAt + 8 + 8 + 4 + 4 + 8;
  constexpr std::size_t kSequencesAt = kPayloadAt + 8 + 8 + 4 + 4 + 8 + 8 + 4 + 1 + 8 + 8 + 4;
  constexpr std::size_t kGroupsAt = kSequencesAt + 8 + 24;
  for (const std::size_t offset :
       {kCapacitiesAt, kSequencesAt, kGroupsAt, kGroupsAt + 8, kGroupsAt + 16, kGroupsAt + 36}) {
    for (const std::uint64_t count :
         {std::uint64_t{200}, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
      std::vector<std::byte> bytes = whole;
      overwrite(bytes, offset, count);
      reseal(bytes);
      EXPECT_THAT(refusal(bytes), HasSubstr("a count of " + std::to_string(count)))
          << "offset " << offset;
    }
  }
  std::vector<std::byte> bytes = whole;
  overwrite(bytes, kPayloadAt + 16, std::uint32_t{0xffffffff});  // length of the strategy's name
  reseal(bytes);
  EXPECT_THAT(refusal(bytes), HasSubstr("truncated"));
}

TEST(PlanCodec, AFileTooShortForItsMagicIsNoPlanUnlessItBeginsLikeOne) {
  const std::vector<std::byte> whole = encode_plan(example_plan(3));
  const std::vector<std::byte> text{std::byte{'h'}, std::byte{'i'}, std::byte{'\n'}};
  EXPECT_THAT(refusal(text), HasSubstr("not a Weft plan"));
  EXPECT_THAT(refusal({}), HasSubstr("not a Weft plan"));
  EXPECT_THAT(refusal({whole.begin(), whole.begin() + 3}), HasSubstr("truncated"));
}

TEST(PlanCodec, ASavedPlanIsLoadedAndAnAbsentOneNamed) {
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / "plan_codec_test.plan";
  const StepPlan plan = example_plan(3);
  save_plan(path, plan);
  EXPECT_EQ(load_plan(path), plan);
  write_file_atomically(path, "WEFT");
  EXPECT_THROW(load_plan(path), UserError);
  std::filesystem::remove(path);
  try {
    load_plan(path);
    FAIL() << "an absent plan was loaded";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr(path.string()));
  }
}

void expect_json_says(const StepPlan& plan, const nlohmann::json& json) {
  EXPECT_EQ(json.at("format"), "weft-plan");
  EXPECT_EQ(json.at("version"), plan.pipeline_stages == 1 ? 2 : plan.virtual_stages == 1 ? 3 : 4);
  EXPECT_EQ(json.at("hash"), plan_hash(plan).hex());
  EXPECT_EQ(json.at("step"), plan.step);
  EXPECT_EQ(json.at("seed"), plan.seed);
  EXPECT_EQ(json.at("strategy"), plan.strategy);
  EXPECT_EQ(json.at("num_ranks"), plan.num_ranks);
  EXPECT_EQ(json.at("capacity_tokens"), plan.capacity.value());
  EXPECT_EQ(json.at("num_layers"), plan.num_layers);
  EXPECT_EQ(json.at("pipeline_stages"), plan.pipeline_stages);
  EXPECT_EQ(json.at("virtual_stages"), plan.virtual_stages);
  EXPECT_EQ(json.at("weighting"), to_string(plan.weighting));
  EXPECT_EQ(json.at("num_slots"), plan.num_slots);
  EXPECT_EQ(json.at("makespan_ns"), plan.makespan.value());
  EXPECT_EQ(json.at("lower_bound_ns"), plan.lower_bound.value());
  EXPECT_EQ(json.at("gap"), plan.gap());
  std::vector<std::int64_t> rank_capacity;
  for (const Tokens tokens : plan.rank_capacity) rank_capacity.push_back(tokens.value());
  EXPECT_EQ(json.at("rank_capacity_tokens"), nlohmann::json(rank_capacity));
  EXPECT_EQ(json.size(), 20U) << "every key is checked here";

  ASSERT_EQ(json.at("sequences").size(), plan.sequences.size());
  for (std::size_t s = 0; s < plan.sequences.size(); ++s) {
    const SequenceSpec& sequence = plan.sequences[s];
    EXPECT_EQ(json["sequences"][s], (nlohmann::json{{"id", sequence.id},
                                                    {"tokens", sequence.tokens.value()},
                                                    {"num_targets", sequence.num_targets}}));
  }
  ASSERT_EQ(json.at("groups").size(), plan.groups.size());
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    nlohmann::json ranks = nlohmann::json::array();
    for (const Rank rank : plan.groups[g].ranks) ranks.push_back(rank.value());
    EXPECT_EQ(json["groups"][g], (nlohmann::json{{"sequence_idx", plan.groups[g].sequence_idx},
                                                 {"slot_idx", plan.groups[g].slot_idx},
                                                 {"ranks", ranks}}));
  }
  ASSERT_EQ(json.at("ranks").size(), plan.ranks.size());
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    ASSERT_EQ(json["ranks"][r].size(), plan.ranks[r].size());
    for (std::size_t m = 0; m < plan.ranks[r].size(); ++m) {
      const MicroBatch& micro_batch = plan.ranks[r][m];
      nlohmann::json pieces = nlohmann::json::array();
      for (const Piece& piece : micro_batch.pieces) {
        pieces.push_back({{"sequence_idx", piece.sequence_idx},
                          {"group_idx", nullptr},
                          {"begin", piece.range.begin},
                          {"end", piece.range.end}});
        if (piece.group_idx != kNoGroup) pieces.back()["group_idx"] = piece.group_idx;
      }
      EXPECT_EQ(json["ranks"][r][m], (nlohmann::json{{"slot_idx", micro_batch.slot_idx},
                                                     {"offload_ratio", micro_batch.offload_ratio},
                                                     {"tokens", micro_batch.tokens().value()},
                                                     {"pieces", pieces}}));
    }
  }
}

nlohmann::json json_of(const StepPlan& plan) {
  std::ostringstream out;
  write_plan_json(out, plan);
  return nlohmann::json::parse(out.str());
}

TEST(PlanJson, SaysWhatThePlanSays) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const StepPlan plan = example_plan(seed);
    expect_json_says(plan, json_of(plan));
  }
  StepPlan empty;
  empty.ranks.resize(1);
  expect_json_says(empty, json_of(empty));
  empty.num_layers = 4;
  empty.pipeline_stages = 3;
  expect_json_says(empty, json_of(empty));
  empty.pipeline_stages = empty.virtual_stages = 2;
  expect_json_says(empty, json_of(empty));
}

TEST(PlanJson, HasItsKeysInAFixedOrder) {
  std::ostringstream out;
  write_plan_json(out, example_plan(0));
  const auto json = nlohmann::ordered_json::parse(out.str());
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) {
    keys.push_back(key);
  }
  EXPECT_THAT(keys, testing::ElementsAre("format", "version", "hash", "step", "seed", "strategy",
                                         "num_ranks", "capacity_tokens", "num_layers",
                                         "pipeline_stages", "virtual_stages", "weighting",
                                         "rank_capacity_tokens", "num_slots", "makespan_ns",
                                         "lower_bound_ns", "gap", "sequences", "groups", "ranks"));
}

TEST(PlanJson, EscapesTheStrategyAndTurnsWhatJsonCannotSayIntoNull) {
  StepPlan plan;
  plan.seed = std::numeric_limits<std::uint64_t>::max();
  plan.strategy = "a \"quoted\" \\ name\n\t\x01 \xc3\xa9";
  plan.makespan = 1_ns;
  plan.ranks = {{MicroBatch{0, std::numeric_limits<double>::quiet_NaN(), {}}}};
  nlohmann::json json = json_of(plan);
  EXPECT_EQ(json["strategy"].get<std::string>(), plan.strategy);
  EXPECT_EQ(json["seed"].get<std::uint64_t>(), plan.seed);
  EXPECT_TRUE(json["gap"].is_null());
  EXPECT_TRUE(json["ranks"][0][0]["offload_ratio"].is_null());
  plan.strategy = "not UTF-8: \xff";
  EXPECT_EQ(json_of(plan)["strategy"].get<std::string>(), "not UTF-8: \xef\xbf\xbd");
}

}  // namespace
}  // namespace weft
