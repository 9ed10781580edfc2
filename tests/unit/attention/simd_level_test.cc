// The blocked kernel at every SIMD level that this processor has, and with any number of threads.
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <thread>
#include <vector>

#include "attention/attention.h"
#include "tests/unit/attention/dense_oracle.h"
#include "tests/unit/attention/pack.h"

namespace weft {
namespace {

struct Outcome {
  AttentionResult result;
  Qkv gradients;
};

Outcome compute(const Pack& pack, const AttentionKernel& kernel) {
  const AttentionResult result = pack.forward(kernel);
  return {result, pack.backward(kernel, result)};
}

void expect_equals_dense(const Pack& pack, double tolerance) {
  const Outcome outcome = compute(pack, *make_blocked_kernel());
  for (const PieceRows& piece : pack.layout.whole) {
    SCOPED_TRACE(fmt::format("{} tokens at row {}", piece.range.size(), piece.row));
    const auto rows = [&](const at::Tensor& tensor) {
      return tensor.narrow(0, piece.row, piece.range.size());
    };
    const DenseGradients dense =
        dense_attention_gradients(rows(pack.q), rows(pack.k), rows(pack.v), rows(pack.d_out));
    const at::Tensor lse = outcome.result.lse.narrow(1, piece.row, piece.range.size());
    EXPECT_LT(relative_error(lse, dense.lse), tolerance);
    EXPECT_LT(largest_error(rows(outcome.result.out), rows(outcome.gradients.q),
                            rows(outcome.gradients.k), rows(outcome.gradients.v), dense),
              tolerance);
  }
}

TEST(SimdLevels, EachEqualsDenseAttention) {
  // Those of this processor; the mask names them all at first.
  std::vector<std::int64_t> levels;
  for (std::int64_t rest = hwy::SupportedTargets(); rest != 0; rest &= rest - 1) {
    levels.push_back(rest & -rest);
  }
  ASSERT_GE(levels.size(), 1U);
  for (const std::int64_t level : levels) {
    SCOPED_TRACE(hwy::TargetName(level));
    hwy::SetSupportedTargetsForTest(level);
    for (const HeadCounts& heads :
         {HeadCounts{1, 1, 64}, HeadCounts{4, 1, 64}, HeadCounts{6, 2, 20}, HeadCounts{2, 2, 7}}) {
      SCOPED_TRACE(testing::Message() << heads << ", seed 70");
      const std::vector<std::int64_t> lengths{1, 3, 200, 17, 64};
      expect_equals_dense(Pack(70, lengths, heads, at::kFloat), 2e-6);
      expect_equals_dense(Pack(70, lengths, heads, at::kDouble), 1e-13);
    }
    hwy::SetSupportedTargetsForTest(0);
  }
}

void expect_same_bits(const Outcome& a, const Outcome& b) {
  EXPECT_TRUE(at::equal(a.result.out, b.result.out));
  EXPECT_TRUE(at::equal(a.result.lse, b.result.lse));
  EXPECT_TRUE(at::equal(a.gradients.q, b.gradients.q));
  EXPECT_TRUE(at::equal(a.gradients.k, b.gradients.k));
  EXPECT_TRUE(at::equal(a.gradients.v, b.gradients.v));
}

// One key head and many blocks: all threads add to the gradients of the same keys.
TEST(BlockedKernelThreads, AnyNumberOfThemGivesTheSameBits) {
  for (const HeadCounts& heads : {HeadCounts{3, 1, 32}, HeadCounts{4, 4, 16}}) {
    const Pack pack(80, {700, 5, 64, 1, 300}, heads, at::kFloat);
    const Outcome alone = compute(pack, *make_blocked_kernel(1));
    for (const int num_threads : {2, 3, 5}) {
      SCOPED_TRACE(fmt::format("{} threads, seed 80", num_threads));
      const auto kernel = make_blocked_kernel(num_threads);
      for (int repeat = 0; repeat < 3; ++repeat) expect_same_bits(compute(pack, *kernel), alone);
    }
  }
}

TEST(BlockedKernelThreads, ConcurrentCallersOfOneKernelGetTheSameBits) {
  const Pack pack(81, {260, 40}, {2, 1, 24}, at::kFloat);
  const auto kernel = make_blocked_kernel(2);
  const Outcome alone = compute(pack, *kernel);
  std::vector<Outcome> outcomes(3);
  std::vector<std::thread> callers;
  for (Outcome& outcome : outcomes) {
    callers.emplace_back([&] { outcome = compute(pack, *kernel); });
  }
  for (std::thread& caller : callers) caller.join();
  for (const Outcome& outcome : outcomes) expect_same_bits(outcome, alone);
}

}  // namespace
}  // namespace weft
