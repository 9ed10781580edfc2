#include "corpus/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "base/error.h"
#include "base/file.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;

std::int64_t sum_of(const std::vector<std::int64_t>& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
}

template <class Action>
std::string refusal(const Action& action) {
  try {
    action();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Workload, ABatchHoldsExactlyItsTokensAndNothingAboveTheContext) {
  for (const char* name : {"byted", "github", "wikipedia", "lognormal:1024,1.5,8K"}) {
    const auto lengths =
        draw_lengths(parse_workload(name, Tokens(100'000)), Tokens(3'000'001), 5, 2);
    EXPECT_EQ(sum_of(lengths), 3'000'001) << name;
    EXPECT_THAT(lengths, Each(AllOf(Ge(1), Le(100'000)))) << name;
  }
}

TEST(Workload, TheSameSeedAndBatchGiveTheSameLengthsAndOthersDoNot) {
  const Workload workload = github_workload(Tokens(1 << 20));
  const auto lengths = draw_lengths(workload, Tokens(1 << 20), 1, 0);
  EXPECT_EQ(draw_lengths(workload, Tokens(1 << 20), 1, 0), lengths);
  EXPECT_NE(draw_lengths(workload, Tokens(1 << 20), 2, 0), lengths);
  EXPECT_NE(draw_lengths(workload, Tokens(1 << 20), 1, 1), lengths);
}

// ByteScale Fig. 4: shares of tokens in sequences above 128K: byted 44.3 %, github 16.2 %.
TEST(Workload, TheBucketsHaveTheTokenSharesOfThePaper) {
  for (const auto& [workload, above] : {std::pair(byted_workload(Tokens(2 << 20)), 0.443),
                                        std::pair(github_workload(Tokens(2 << 20)), 0.162)}) {
    std::int64_t longer = 0;
    std::int64_t total = 0;
    for (std::int64_t batch = 0; batch < 20; ++batch) {
      for (const std::int64_t tokens : draw_lengths(workload, Tokens(32 << 20), 1, batch)) {
        total += tokens;
        longer += tokens > (128 << 10) ? tokens : 0;
      }
    }
    EXPECT_NEAR(static_cast<double>(longer) / static_cast<double>(total), above, 0.02)
        << workload.name;
  }
}

// The list itself: mean 1013.6, p50 347, p90 2112.
TEST(Workload, WikipediaHasTheQuantilesOfTheList) {
  auto lengths = draw_lengths(wikipedia_workload(Tokens(2 << 20)), Tokens(64 << 20), 3, 0);
  std::sort(lengths.begin(), lengths.end());
  const auto at = [&](double share) {
    return static_cast<double>(
        lengths[static_cast<std::size_t>(share * static_cast<double>(lengths.size()))]);
  };
  EXPECT_NEAR(at(0.5), 347, 10);
  EXPECT_NEAR(at(0.9), 2112, 60);
  EXPECT_NEAR(static_cast<double>(sum_of(lengths)) / static_cast<double>(lengths.size()), 1013.6,
              60);
}

TEST(Workload, LogNormalHasItsMeanWhenNothingIsCapped) {
  const auto lengths = draw_lengths(parse_workload("lognormal:1000,0.5,1G", Tokens(1 << 30)),
                                    Tokens(50'000'000), 9, 0);
  EXPECT_NEAR(static_cast<double>(sum_of(lengths)) / static_cast<double>(lengths.size()), 1000, 10);
}

TEST(Workload, FilesOfLengthsAreDrawnFromAndBadLinesNamed) {
  std::string pattern = (fs::temp_directory_path() / "weft-workload-XXXXXX").string();
  ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
  const fs::path folder(pattern);
  write_file_atomically(folder / "a.txt", std::string("7 # seven\n\n9\n"));
  EXPECT_THAT(read_lengths_file(folder / "a.txt"), ElementsAre(7, 9));
  const auto drawn =
      draw_lengths(parse_workload((folder / "a.txt").string(), Tokens(8)), Tokens(70), 1, 0);
  EXPECT_THAT(drawn, Each(7));
  write_file_atomically(folder / "b.jsonl",
                        std::string("{\"tokens\": 5}\n{\"length\": 6, \"x\": 1}\n"));
  const auto workload = parse_workload((folder / "b.jsonl").string(), Tokens(8));
  EXPECT_THAT(std::get<ListedLengths>(workload.lengths).tokens, ElementsAre(5, 6));
  write_file_atomically(folder / "c.jsonl", std::string("{\"tokens\": 5}\nseven\n"));
  EXPECT_THAT(refusal([&] { parse_workload((folder / "c.jsonl").string(), Tokens(8)); }),
              AllOf(HasSubstr("c.jsonl"), HasSubstr("line 2")));
  for (const char* bad : {"7\nseven\n", "7\n0\n", "7\n-3\n"}) {
    write_file_atomically(folder / "d.txt", std::string(bad));
    EXPECT_THAT(refusal([&] { read_lengths_file(folder / "d.txt"); }),
                AllOf(HasSubstr("d.txt"), HasSubstr("line 2")));
  }
  EXPECT_THAT(refusal([&] {
                draw_lengths(parse_workload((folder / "a.txt").string(), Tokens(6)), Tokens(9), 1,
                             0);
              }),
              HasSubstr("raise the context"));
  fs::remove_all(folder);
}

TEST(Workload, UnknownNamesAndBadParametersAreRefused) {
  EXPECT_THAT(refusal([] { parse_workload("githup", Tokens(8)); }),
              HasSubstr("did you mean 'github'?"));
  for (const char* bad : {"lognormal", "lognormal:1", "lognormal:a,1,8", "lognormal:1,1,0",
                          "lognormal:nan,1,8", "lognormal:10,-1,8"}) {
    EXPECT_THAT(refusal([&] { parse_workload(bad, Tokens(8)); }), HasSubstr(bad)) << bad;
  }
}

}  // namespace
}  // namespace weft
