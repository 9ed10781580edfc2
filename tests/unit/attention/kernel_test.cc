// Both kernels against the dense oracle: forward, backward, arbitrary cuts of queries and keys.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "attention/attention_kernel.h"
#include "attention/packed_rows.h"
#include "attention/simd/query_lanes.h"
#include "base/error.h"
#include "base/random.h"
#include "tests/unit/attention/dense_oracle.h"

namespace weft {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

template <class T>
constexpr at::ScalarType kDtypeOf = std::is_same_v<T, float> ? at::kFloat : at::kDouble;

// Relative error allowed in a tensor of this dtype.
template <class T>
constexpr double kTolerance = std::is_same_v<T, float> ? 2e-6 : 1e-13;

// One pair of runs in one dtype, with its truth in double.
template <class T>
struct PairTensors {
  at::Tensor q, k, v;   // [Q, H, D], [S, K, D], [S, K, D]
  at::Tensor out, lse;  // [Q, H, D], [H, Q]
  at::Tensor d_out;     // [Q, H, D]
  at::Tensor d_q, d_k, d_v;
  at::Tensor delta;  // [H, Q]

  PairTensors(std::uint64_t seed, std::int64_t queries, std::int64_t keys, const HeadCounts& heads)
      : q(random_tensor(seed, {queries, heads.num_heads, heads.head_dim}, kDtypeOf<T>)),
        k(random_tensor(seed + 1, {keys, heads.num_kv_heads, heads.head_dim}, kDtypeOf<T>)),
        v(random_tensor(seed + 2, {keys, heads.num_kv_heads, heads.head_dim}, kDtypeOf<T>)),
        out(at::zeros_like(q)),
        lse(at::full({heads.num_heads, queries}, -kInf, q.options())),
        d_out(random_tensor(seed + 3, q.sizes(), kDtypeOf<T>)),
        d_q(at::zeros_like(q)),
        d_k(at::zeros_like(k)),
        d_v(at::zeros_like(v)) {}

  static PackedRows<const T> read(const at::Tensor& rows) {
    return {rows.data_ptr<T>(), rows.size(1), rows.size(2), rows.stride(0)};
  }
  static PackedRows<T> write(const at::Tensor& rows) {
    return {rows.data_ptr<T>(), rows.size(1), rows.size(2), rows.stride(0)};
  }

  // Queries `q_rows` against keys `k_rows`; the tensors hold positions from q_begin and k_begin on.
  void forward(const AttentionKernel& kernel, TokenRange q_rows, TokenRange k_rows,
               std::int64_t q_begin = 0, std::int64_t k_begin = 0) {
    const PieceRows queries{q_rows.begin, q_rows}, keys{k_rows.begin, k_rows};
    kernel.forward(ForwardPair<T>{.q = read(q).of(queries),
                                  .k = read(k).of(keys),
                                  .v = read(v).of(keys),
                                  .q_begin = q_begin + q_rows.begin,
                                  .k_begin = k_begin + k_rows.begin,
                                  .scale = scale(),
                                  .out = write(out).of(queries),
                                  .lse = {lse.data_ptr<T>() + q_rows.begin, lse.size(1)}});
  }
  void forward(const AttentionKernel& kernel) { forward(kernel, {0, q.size(0)}, {0, k.size(0)}); }

  // REQUIRES forward of the same whole sequence.
  void backward(const AttentionKernel& kernel, TokenRange q_rows, TokenRange k_rows) {
    delta = (out * d_out).sum(-1).transpose(0, 1).contiguous();
    const PieceRows queries{q_rows.begin, q_rows}, keys{k_rows.begin, k_rows};
    kernel.backward(BackwardPair<T>{.q = read(q).of(queries),
                                    .k = read(k).of(keys),
                                    .v = read(v).of(keys),
                                    .d_out = read(d_out).of(queries),
                                    .lse = {lse.data_ptr<T>() + q_rows.begin, lse.size(1)},
                                    .delta = {delta.data_ptr<T>() + q_rows.begin, lse.size(1)},
                                    .q_begin = q_rows.begin,
                                    .k_begin = k_rows.begin,
                                    .scale = scale(),
                                    .d_q = write(d_q).of(queries),
                                    .d_k = write(d_k).of(keys),
                                    .d_v = write(d_v).of(keys)});
  }

  double scale() const { return 1 / std::sqrt(static_cast<double>(q.size(2))); }
};

template <class T>
void expect_forward_equals_dense(const AttentionKernel& kernel, std::uint64_t seed,
                                 std::int64_t queries, std::int64_t keys, std::int64_t q_begin,
                                 std::int64_t k_begin, const HeadCounts& heads) {
  PairTensors<T> pair(seed, queries, keys, heads);
  pair.forward(kernel, {0, queries}, {0, keys}, q_begin, k_begin);
  const DenseAttention dense = dense_attention(pair.q.to(at::kDouble), pair.k.to(at::kDouble),
                                               pair.v.to(at::kDouble), q_begin, k_begin);
  const at::Tensor sees_none = dense.lse == -kInf;
  EXPECT_TRUE(at::equal(pair.lse == -kInf, sees_none));
  EXPECT_LT(relative_error(pair.lse.masked_fill(sees_none, 0), dense.lse.masked_fill(sees_none, 0)),
            kTolerance<T>);
  EXPECT_LT(relative_error(pair.out, at::nan_to_num(dense.out)), kTolerance<T>);
}

template <class T>
void expect_gradients_equal_autograd(const AttentionKernel& kernel, std::uint64_t seed,
                                     std::int64_t tokens, const HeadCounts& heads) {
  PairTensors<T> pair(seed, tokens, tokens, heads);
  pair.forward(kernel);
  pair.backward(kernel, {0, tokens}, {0, tokens});
  const DenseGradients dense = dense_attention_gradients(pair.q, pair.k, pair.v, pair.d_out);
  EXPECT_LT(largest_error(pair.out, pair.d_q, pair.d_k, pair.d_v, dense), kTolerance<T>);
}

class EachKernel : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<AttentionKernel> kernel_ = make_attention_kernel(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Kernels, EachKernel, testing::Values("reference", "blocked"),
                         [](const auto& info) { return std::string(info.param); });

// One head each: a token is a lane.
std::vector<std::int64_t> edge_lengths() {
  std::vector<std::int64_t> lengths{1, 2, 3, 4, 5, 11, 13};
  for (const std::int64_t edge :
       {std::int64_t{8}, std::int64_t{16}, std::int64_t{32}, kLaneStep, 2 * kLaneStep,
        forward_block_sizes(16).num_keys, forward_block_sizes(16).num_lanes}) {
    for (const std::int64_t tokens : {edge - 1, edge, edge + 1}) lengths.push_back(tokens);
  }
  return lengths;
}

TEST_P(EachKernel, ForwardEqualsDenseAtEveryBlockEdge) {
  for (const std::int64_t tokens : edge_lengths()) {
    SCOPED_TRACE(fmt::format("{} tokens, seed {}", tokens, 100 + tokens));
    const HeadCounts heads{2, 2, 16};
    expect_forward_equals_dense<double>(*kernel_, 100 + tokens, tokens, tokens, 0, 0, heads);
    expect_forward_equals_dense<float>(*kernel_, 100 + tokens, tokens, tokens, 0, 0, heads);
  }
}

TEST_P(EachKernel, GradientsEqualAutogradAtEveryBlockEdge) {
  for (const std::int64_t tokens : edge_lengths()) {
    SCOPED_TRACE(fmt::format("{} tokens, seed {}", tokens, 200 + tokens));
    expect_gradients_equal_autograd<double>(*kernel_, 200 + tokens, tokens, {2, 2, 16});
    expect_gradients_equal_autograd<float>(*kernel_, 200 + tokens, tokens, {2, 2, 16});
  }
}

TEST_P(EachKernel, EveryHeadCountAndHeadDimWorks) {
  for (const HeadCounts& heads :
       {HeadCounts{8, 8, 16}, HeadCounts{8, 2, 24}, HeadCounts{8, 1, 32}, HeadCounts{28, 4, 8},
        HeadCounts{1, 1, 1}, HeadCounts{3, 1, 5}, HeadCounts{2, 2, 128}, HeadCounts{4, 2, 80},
        HeadCounts{2, 1, 256}, HeadCounts{5, 1, 17}}) {
    SCOPED_TRACE(testing::Message() << heads);
    expect_gradients_equal_autograd<double>(*kernel_, 300, 70, heads);
    expect_gradients_equal_autograd<float>(*kernel_, 301, 70, heads);
  }
}

TEST_P(EachKernel, RunsAnywhereInTheSequenceSeeTheirCausalPart) {
  const HeadCounts heads{4, 2, 8};
  for (const std::int64_t q_begin : {0, 1, 10, 300}) {
    for (const std::int64_t k_begin : {0, 1, 9, 10, 11, 200, 1000}) {
      for (const auto& [queries, keys] : {std::pair{1, 1}, {1, 300}, {200, 1}, {150, 140}}) {
        SCOPED_TRACE(fmt::format("q [{}, +{}), k [{}, +{})", q_begin, queries, k_begin, keys));
        expect_forward_equals_dense<double>(*kernel_, 7, queries, keys, q_begin, k_begin, heads);
        expect_forward_equals_dense<float>(*kernel_, 7, queries, keys, q_begin, k_begin, heads);
      }
    }
  }
}

// A random cut of [0, size) into neighbouring runs, some of them of one token.
std::vector<TokenRange> random_cut(const RandomStream& random, std::int64_t size) {
  std::vector<TokenRange> runs;
  for (std::int64_t begin = 0; begin < size;) {
    const std::uint64_t draw = random.bits(static_cast<std::uint64_t>(begin));
    const std::int64_t length = draw % 4 == 0 ? 1 : 1 + static_cast<std::int64_t>(draw >> 8) % size;
    runs.push_back({begin, std::min(size, begin + length)});
    begin = runs.back().end;
  }
  return runs;
}

template <class T>
void expect_cut_equals_uncut(const AttentionKernel& kernel, std::uint64_t seed) {
  SCOPED_TRACE(fmt::format("seed {}", seed));
  const std::int64_t tokens =
      20 + static_cast<std::int64_t>(RandomStream(seed, "size").below(0, 300));
  const HeadCounts heads{4, 2, 8};
  std::vector<TokenRange> queries = random_cut(RandomStream(seed, "queries"), tokens);
  std::vector<TokenRange> keys = random_cut(RandomStream(seed, "keys"), tokens);
  // Partials merge in any order.
  if (seed % 2 == 1) std::reverse(keys.begin(), keys.end());
  PairTensors<T> cut(seed, tokens, tokens, heads);
  for (const TokenRange q : queries) {
    for (const TokenRange k : keys) cut.forward(kernel, q, k);
  }
  for (const TokenRange q : queries) {
    for (const TokenRange k : keys) cut.backward(kernel, q, k);
  }
  const DenseGradients dense = dense_attention_gradients(cut.q, cut.k, cut.v, cut.d_out);
  EXPECT_LT(relative_error(cut.lse, dense.lse), kTolerance<T>);
  EXPECT_LT(largest_error(cut.out, cut.d_q, cut.d_k, cut.d_v, dense), kTolerance<T>);
}

TEST_P(EachKernel, SequenceCutIntoArbitraryRunsEqualsTheUncutOne) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    expect_cut_equals_uncut<double>(*kernel_, seed);
    expect_cut_equals_uncut<float>(*kernel_, seed);
  }
}

// Scores of +-100 and more: exp of them overflows unless the largest is taken out first.
TEST_P(EachKernel, LargeScoresNeitherOverflowNorVanish) {
  const std::int64_t tokens = 200;
  PairTensors<float> pair(11, tokens, tokens, {2, 2, 16});
  pair.q *= 40;
  pair.k *= 10;
  for (const TokenRange k : {TokenRange{150, 200}, TokenRange{0, 3}, TokenRange{3, 150}}) {
    pair.forward(*kernel_, {0, tokens}, k);
  }
  pair.backward(*kernel_, {0, tokens}, {0, tokens});
  const DenseGradients dense = dense_attention_gradients(pair.q, pair.k, pair.v, pair.d_out);
  EXPECT_GT(dense.lse.max().item<double>(), 500);
  // Scores near 1000 have an error of 1e-4 in float.
  EXPECT_LT(relative_error(pair.lse, dense.lse), 1e-6);
  EXPECT_LT(relative_error(pair.out, dense.out), 5e-4);
  EXPECT_LT(relative_error(pair.d_v, dense.d_v), 5e-4);
}

TEST_P(EachKernel, QueriesBeforeAllKeysAreLeftAsTheyWere) {
  PairTensors<double> pair(12, 5, 6, {2, 1, 4});
  pair.forward(*kernel_, {0, 5}, {0, 6}, /*q_begin=*/0, /*k_begin=*/5);
  EXPECT_TRUE(at::equal(pair.out, at::zeros_like(pair.out)));
  EXPECT_TRUE(at::equal(pair.lse, at::full_like(pair.lse, -kInf)));
}

TEST_P(EachKernel, EmptyRunsAreLegal) {
  PairTensors<double> pair(13, 3, 3, {2, 1, 4});
  pair.forward(*kernel_, {0, 0}, {0, 3});
  pair.forward(*kernel_, {0, 3}, {2, 2});
  EXPECT_TRUE(at::equal(pair.lse, at::full_like(pair.lse, -kInf)));
  pair.forward(*kernel_);
  pair.backward(*kernel_, {0, 0}, {0, 3});
  pair.backward(*kernel_, {0, 3}, {3, 3});
  EXPECT_TRUE(at::equal(pair.d_q, at::zeros_like(pair.d_q)));
  EXPECT_TRUE(at::equal(pair.d_v, at::zeros_like(pair.d_v)));
}

TEST_P(EachKernel, NanInTheInputReachesTheOutput) {
  for (const std::int64_t tokens : {1, 70}) {
    PairTensors<float> pair(14, tokens, tokens, {1, 1, 4});
    pair.q[tokens - 1].fill_(std::numeric_limits<float>::quiet_NaN());
    pair.forward(*kernel_);
    EXPECT_TRUE(at::isnan(pair.out[tokens - 1]).all().item<bool>());
    EXPECT_TRUE(at::isnan(pair.lse[0][tokens - 1]).item<bool>());
  }
}

TEST_P(EachKernel, GradientsEqualCentralDifferences) {
  const HeadCounts heads{4, 2, 3};
  const std::int64_t tokens = 7;
  PairTensors<double> pair(15, tokens, tokens, heads);
  pair.forward(*kernel_);
  pair.backward(*kernel_, {0, tokens}, {0, tokens});
  const auto loss = [&] {
    PairTensors<double> moved = pair;
    moved.out = at::zeros_like(pair.out);
    moved.lse = at::full_like(pair.lse, -kInf);
    moved.forward(*kernel_);
    return (moved.out * moved.d_out).sum().item<double>();
  };
  constexpr double kStep = 1e-5;
  for (const auto& [values, gradient] :
       {std::pair{pair.q, pair.d_q}, {pair.k, pair.d_k}, {pair.v, pair.d_v}}) {
    double* element = values.data_ptr<double>();
    const double* expected = gradient.data_ptr<double>();
    for (std::int64_t i = 0; i < values.numel(); ++i) {
      const double before = element[i];
      element[i] = before + kStep;
      const double above = loss();
      element[i] = before - kStep;
      const double below = loss();
      element[i] = before;
      ASSERT_NEAR((above - below) / (2 * kStep), expected[i], 1e-8) << "element " << i;
    }
  }
}

TEST_P(EachKernel, SameInputGivesTheSameBits) {
  PairTensors<float> first(16, 333, 333, {4, 2, 16}), second(16, 333, 333, {4, 2, 16});
  for (PairTensors<float>* pair : {&first, &second}) {
    pair->forward(*kernel_);
    pair->backward(*kernel_, {0, 333}, {0, 333});
  }
  EXPECT_TRUE(at::equal(first.out, second.out));
  EXPECT_TRUE(at::equal(first.lse, second.lse));
  EXPECT_TRUE(at::equal(first.d_q, second.d_q));
  EXPECT_TRUE(at::equal(first.d_k, second.d_k));
  EXPECT_TRUE(at::equal(first.d_v, second.d_v));
}

TEST_P(EachKernel, ShapesThatDoNotFitAreRefusedWithBoth) {
  PairTensors<double> pair(17, 4, 4, {3, 2, 4});
  try {
    pair.forward(*kernel_);
    FAIL() << "3 heads over 2 key heads must be refused";
  } catch (const InternalError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("[4, 3, 4]"));
    EXPECT_THAT(error.what(), testing::HasSubstr("[4, 2, 4]"));
  }
}

TEST(MakeAttentionKernel, KnowsItsNames) {
  EXPECT_EQ(make_attention_kernel("blocked")->name(), "blocked");
  EXPECT_EQ(make_attention_kernel("reference")->name(), "reference");
  try {
    make_attention_kernel("blokced");
    FAIL() << "an unknown name must be refused";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("'blocked' or 'reference', got 'blokced'"));
  }
}

}  // namespace
}  // namespace weft
