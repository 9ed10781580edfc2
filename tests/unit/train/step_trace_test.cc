#include "train/step_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "comm/thread/thread_world.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

// A product of 2 ms with a wait of 0.5 ms inside, and a norm of 1 ms.
std::vector<Operation> some_operations() {
  return {{.name = "ring",
           .pass = "forward",
           .kind = OperationKind::kExchange,
           .layer = 1,
           .start_ns = 1'000'000,
           .duration_ns = 500'000},
          {.name = "q_proj",
           .pass = "forward",
           .kind = OperationKind::kProduct,
           .layer = 1,
           .start_ns = 0,
           .duration_ns = 2'000'000,
           .inside_ns = 500'000,
           .flops = 3'000'000},
          {.name = "norm",
           .kind = OperationKind::kElementwise,
           .start_ns = 2'000'000,
           .duration_ns = 1'000'000}};
}

const KindTotals& totals(const RankTrace& trace, OperationKind kind) {
  return trace.kinds[static_cast<std::size_t>(kind)];
}

TEST(StepTrace, SumsOwnTimesAndFlopsByKind) {
  const RankTrace trace = summarise(some_operations(), 4e-3, Rank(0));
  EXPECT_DOUBLE_EQ(totals(trace, OperationKind::kProduct).own_s, 1.5e-3);
  EXPECT_DOUBLE_EQ(totals(trace, OperationKind::kProduct).flops, 3e6);
  EXPECT_DOUBLE_EQ(totals(trace, OperationKind::kExchange).own_s, 0.5e-3);
  EXPECT_DOUBLE_EQ(totals(trace, OperationKind::kExchange).flops_s, 0);
  EXPECT_EQ(totals(trace, OperationKind::kElementwise).count, 1);
  EXPECT_EQ(totals(trace, OperationKind::kReduction).count, 0);
}

TEST(StepTrace, IsAChromeTraceWithAProcessForEachRank) {
  const std::vector<RankTrace> ranks = {summarise(some_operations(), 4e-3, Rank(0)),
                                        summarise({}, 4e-3, Rank(1))};
  const auto json = nlohmann::json::parse(chrome_trace(ranks, 7));
  EXPECT_EQ(json.at("otherData").at("step"), 7);
  const auto& events = json.at("traceEvents");
  ASSERT_EQ(events.size(), 5U);  // two names of processes, three operations
  EXPECT_EQ(events[0].at("args").at("name"), "rank 0");
  EXPECT_EQ(events[4].at("args").at("name"), "rank 1");
  const auto& product = events[2];
  EXPECT_EQ(product.at("ph"), "X");
  EXPECT_EQ(product.at("name"), "q_proj forward");
  EXPECT_EQ(product.at("cat"), "matrix products");
  EXPECT_EQ(product.at("pid"), 0);
  EXPECT_DOUBLE_EQ(product.at("ts").get<double>(), 0);
  EXPECT_DOUBLE_EQ(product.at("dur").get<double>(), 2000);
  EXPECT_DOUBLE_EQ(product.at("args").at("own_us").get<double>(), 1500);
  EXPECT_EQ(product.at("args").at("flops"), 3'000'000);
  EXPECT_EQ(events[3].at("name"), "norm");
}

TEST(StepTrace, TheTableNamesSharesRatesAndWhatLiesBetween) {
  const std::vector<RankTrace> ranks = {summarise(some_operations(), 4e-3, Rank(0))};
  const std::string table = breakdown(ranks, 4e9);
  EXPECT_THAT(table, HasSubstr("matrix products          1.500 ms   37.5 %"));
  EXPECT_THAT(table, HasSubstr("2.0 GFLOP/s, 50 % of the peak"));
  EXPECT_THAT(table, HasSubstr("between operations       1.000 ms   25.0 %"));
  EXPECT_THAT(table, ::testing::Not(HasSubstr("reduction")));
}

TEST(StepTrace, EveryRankGetsAllTracesInRankOrder) {
  for (const int num_ranks : {1, 2, 3, 5}) {
    run_thread_ranks({.num_ranks = num_ranks}, [&](Communicator& comm) {
      const auto operations = some_operations();
      const std::size_t mine = static_cast<std::size_t>(comm.rank().value()) % 4;
      const auto all = gather_traces(
          comm, summarise(std::span(operations).first(mine), 1 + comm.rank().value(), comm.rank()),
          3);
      ASSERT_EQ(all.size(), static_cast<std::size_t>(num_ranks));
      for (int r = 0; r < num_ranks; ++r) {
        const RankTrace& trace = all[static_cast<std::size_t>(r)];
        EXPECT_EQ(trace.step_s, 1 + r);
        EXPECT_EQ(totals(trace, OperationKind::kExchange).count, r % 4 >= 1 ? 1 : 0);
        EXPECT_EQ(totals(trace, OperationKind::kElementwise).count, r % 4 >= 3 ? 1 : 0);
        EXPECT_EQ(trace.events.empty(), r % 4 == 0);
      }
    });
  }
}

}  // namespace
}  // namespace weft
