#include "base/operation_trace.h"

#include <gtest/gtest.h>

#include <optional>

namespace weft {
namespace {

void wait_for_a_tick() {
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - start < std::chrono::microseconds(20)) {
  }
}

TEST(OperationTrace, RecordsNothingWithoutATraceOrARecording) {
  OperationTrace trace;
  {
    const OperationScope none({nullptr, "a"}, OperationKind::kLoss);
  }
  {
    const OperationScope idle({&trace, "a"}, OperationKind::kLoss);
  }
  trace.start();
  EXPECT_TRUE(trace.stop().empty());
  EXPECT_FALSE(trace.recording());
}

TEST(OperationTrace, OwnTimesOfNestedOperationsAddUpToTheOutermost) {
  OperationTrace trace;
  trace.start();
  {
    const OperationScope outer({&trace, "outer", 3}, OperationKind::kAttention, "forward", 42);
    wait_for_a_tick();
    for (int i = 0; i < 2; ++i) {
      const OperationScope middle({&trace, "middle"}, OperationKind::kExchange);
      const OperationScope inner({&trace, "inner"}, OperationKind::kData);
      wait_for_a_tick();
    }
  }
  const auto operations = trace.stop();
  ASSERT_EQ(operations.size(), 5U);
  const Operation& outer = operations.back();
  EXPECT_EQ(outer.name, "outer");
  EXPECT_EQ(outer.pass, "forward");
  EXPECT_EQ(outer.layer, 3);
  EXPECT_EQ(outer.flops, 42);
  EXPECT_EQ(outer.kind, OperationKind::kAttention);
  std::int64_t own = 0;
  for (const Operation& operation : operations) {
    EXPECT_GE(operation.own_ns(), 0);
    EXPECT_GE(operation.start_ns, outer.start_ns);
    EXPECT_LE(operation.start_ns + operation.duration_ns, outer.start_ns + outer.duration_ns);
    own += operation.own_ns();
  }
  EXPECT_EQ(own, outer.duration_ns);
  EXPECT_EQ(outer.inside_ns, operations[1].duration_ns + operations[3].duration_ns);
}

TEST(OperationTrace, TimesAreThoseOfTheClockItWasGiven) {
  std::chrono::nanoseconds now(1000);
  OperationTrace trace([&] { return now; });
  trace.start();
  now += std::chrono::nanoseconds(7);
  {
    const OperationScope outer({&trace, "outer"}, OperationKind::kAttention);
    now += std::chrono::nanoseconds(20);
    const OperationScope inner({&trace, "inner"}, OperationKind::kData);
    now += std::chrono::nanoseconds(3);
  }
  const auto operations = trace.stop();
  ASSERT_EQ(operations.size(), 2U);
  EXPECT_EQ(operations[0].start_ns, 27);
  EXPECT_EQ(operations[0].duration_ns, 3);
  EXPECT_EQ(operations[1].start_ns, 7);
  EXPECT_EQ(operations[1].duration_ns, 23);
  EXPECT_EQ(operations[1].own_ns(), 20);
}

TEST(OperationTrace, ASecondRecordingStartsEmptyAndAnOperationAcrossItsStartIsLeftOut) {
  OperationTrace trace;
  trace.start();
  {
    const OperationScope first({&trace, "first"}, OperationKind::kLoss);
  }
  std::optional<OperationScope> across;
  across.emplace(OperationSite{&trace, "across"}, OperationKind::kLoss);
  trace.start();
  across.reset();
  {
    const OperationScope second({&trace, "second"}, OperationKind::kLoss);
  }
  const auto operations = trace.stop();
  ASSERT_EQ(operations.size(), 1U);
  EXPECT_EQ(operations[0].name, "second");
}

}  // namespace
}  // namespace weft
