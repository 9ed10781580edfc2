// Each layer's backward against libtorch's autograd and against central differences, in double.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "model/cross_entropy.h"
#include "model/linear.h"
#include "model/rms_norm.h"
#include "model/rotary.h"
#include "model/swiglu.h"
#include "tests/support/memory_source.h"
#include "tests/unit/model/gradient_check.h"

namespace weft {
namespace {

using testing::finite_difference;
using testing::kFiniteDifferenceError;
using testing::kRoundingError;
using testing::relative_difference;

at::Tensor random(std::vector<std::int64_t> shape, std::string_view name) {
  at::Tensor values = at::empty(shape, at::kDouble);
  const RandomStream stream(3, name);
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    values.data_ptr<double>()[i] = stream.normal(static_cast<std::uint64_t>(i));
  }
  return values;
}

at::Tensor leaf(const at::Tensor& value) { return value.clone().requires_grad_(true); }
double weighted_sum(const at::Tensor& a, const at::Tensor& b) {
  return at::mul(a, b).sum().item<double>();
}

class LayerRows : public ::testing::TestWithParam<std::int64_t> {};
INSTANTIATE_TEST_SUITE_P(Rows, LayerRows, ::testing::Values(0, 1, 2, 7));

TEST_P(LayerRows, LinearAddsItsWeightGradientToWhatIsThere) {
  const at::Tensor x = random({GetParam(), 6}, "x");
  const at::Tensor weight = random({4, 6}, "w");
  const at::Tensor d_y = random({GetParam(), 4}, "dy");
  const at::Tensor gradient = at::ones_like(weight);
  Linear linear(weight, gradient);
  linear.backward_weight(x, d_y);
  const at::Tensor x_leaf = leaf(x);
  const at::Tensor weight_leaf = leaf(weight);
  at::mul(at::linear(x_leaf, weight_leaf), d_y).sum().backward();
  EXPECT_LT(relative_difference(gradient - 1, weight_leaf.grad()), kRoundingError);
  EXPECT_LT(relative_difference(linear.backward_input(d_y), x_leaf.grad()), kRoundingError);
  const at::Tensor wider = at::full({GetParam(), 9}, 5, x.options());
  linear.backward_input(d_y, wider.narrow(1, 2, 6));
  EXPECT_TRUE(wider.narrow(1, 2, 6).equal(linear.backward_input(d_y)));
  EXPECT_TRUE((wider.narrow(1, 0, 2) == 5).all().item<bool>());
  EXPECT_TRUE((wider.narrow(1, 8, 1) == 5).all().item<bool>());
  const at::Tensor residual = random({GetParam(), 4}, "residual");
  EXPECT_LT(relative_difference(linear.add_forward(residual, x), residual + linear.forward(x)),
            kRoundingError);
  const auto f = [&] { return weighted_sum(linear.forward(x), d_y); };
  EXPECT_LT(relative_difference(gradient - 1, finite_difference(f, weight)),
            kFiniteDifferenceError);
  EXPECT_LT(relative_difference(linear.backward_input(d_y), finite_difference(f, x)),
            kFiniteDifferenceError);
}

TEST_P(LayerRows, RmsNormMatchesAutogradAndDifferences) {
  constexpr double kEps = 1e-2;  // large enough to matter
  const at::Tensor x = random({GetParam(), 6}, "x");
  const at::Tensor gain = random({6}, "gain");
  const at::Tensor d_y = random({GetParam(), 6}, "dy");
  const at::Tensor gradient = at::ones_like(gain);
  RmsNorm norm(gain, gradient, kEps);
  const auto f = [&] { return weighted_sum(norm.forward(x, norm.reciprocal_rms(x)), d_y); };
  const at::Tensor rstd = norm.reciprocal_rms(x);
  const at::Tensor d_x = norm.backward_input(x, rstd, d_y);
  norm.backward_weight(x, rstd, d_y);
  const at::Tensor x_leaf = leaf(x);
  const at::Tensor gain_leaf = leaf(gain);
  const at::Tensor y = x_leaf / at::sqrt((x_leaf * x_leaf).mean(1, true) + kEps) * gain_leaf;
  EXPECT_LT(relative_difference(norm.forward(x, rstd), y.detach()), kRoundingError);
  at::mul(y, d_y).sum().backward();
  EXPECT_LT(relative_difference(d_x, x_leaf.grad()), kRoundingError);
  EXPECT_LT(relative_difference(gradient - 1, gain_leaf.grad()), kRoundingError);
  EXPECT_LT(relative_difference(d_x, finite_difference(f, x)), kFiniteDifferenceError);
  EXPECT_LT(relative_difference(gradient - 1, finite_difference(f, gain)), kFiniteDifferenceError);
}

TEST_P(LayerRows, SwiGluMatchesAutogradAndDifferences) {
  const at::Tensor gate = random({GetParam(), 5}, "gate");
  const at::Tensor up = random({GetParam(), 5}, "up");
  const at::Tensor d_h = random({GetParam(), 5}, "dh");
  const at::Tensor gate_up = at::cat({gate, up}, 1);
  const at::Tensor d_gate_up = at::cat({d_h, at::full_like(d_h, std::nan(""))}, 1);
  swiglu_backward(gate_up, d_gate_up);
  const at::Tensor gate_leaf = leaf(gate);
  const at::Tensor up_leaf = leaf(up);
  const at::Tensor h = gate_leaf * at::sigmoid(gate_leaf) * up_leaf;
  EXPECT_LT(relative_difference(swiglu_forward(gate_up), h.detach()), kRoundingError);
  at::mul(h, d_h).sum().backward();
  EXPECT_LT(relative_difference(gate_of(d_gate_up), gate_leaf.grad()), kRoundingError);
  EXPECT_LT(relative_difference(up_of(d_gate_up), up_leaf.grad()), kRoundingError);
  const auto f = [&] { return weighted_sum(swiglu_forward(at::cat({gate, up}, 1)), d_h); };
  EXPECT_LT(relative_difference(gate_of(d_gate_up), finite_difference(f, gate)),
            kFiniteDifferenceError);
  EXPECT_LT(relative_difference(up_of(d_gate_up), finite_difference(f, up)),
            kFiniteDifferenceError);
}

TEST(Rotary, TurnsElementJWithElementJPlusHalfByPositionTimesFrequency) {
  const at::Tensor positions = at::tensor(std::vector<std::int64_t>{0, 3, 1'000'003});
  const RotaryTable table = make_rotary_table(positions, 4, 100, at::kDouble);
  const at::Tensor before = random({3, 2, 4}, "heads");
  at::Tensor heads = before.clone();
  rotate(heads, table);
  for (std::int64_t row = 0; row < 3; ++row) {
    for (std::int64_t head = 0; head < 2; ++head) {
      for (std::int64_t j = 0; j < 2; ++j) {
        const double angle =
            positions[row].item<double>() * std::pow(100.0, -0.5 * static_cast<double>(j));
        const double a = before[row][head][j].item<double>();
        const double b = before[row][head][j + 2].item<double>();
        EXPECT_NEAR(heads[row][head][j].item<double>(), a * std::cos(angle) - b * std::sin(angle),
                    1e-12);
        EXPECT_NEAR(heads[row][head][j + 2].item<double>(),
                    b * std::cos(angle) + a * std::sin(angle), 1e-12);
      }
    }
  }
  rotate_back(heads, table);
  EXPECT_LT(relative_difference(heads, before), kRoundingError);
}

TEST(Rotary, BackIsTheTransposeOfForwardSoItIsItsBackward) {
  const RotaryTable table =
      make_rotary_table(at::tensor(std::vector<std::int64_t>{0, 1, 2, 77}), 6, 10000, at::kDouble);
  const at::Tensor x = random({4, 3, 6}, "x");
  at::Tensor d_x = random({4, 3, 6}, "dy");
  const at::Tensor d_y = d_x.clone();
  rotate_back(d_x, table);
  const auto f = [&] {
    at::Tensor y = x.clone();
    rotate(y, table);
    return weighted_sum(y, d_y);
  };
  EXPECT_LT(relative_difference(d_x, finite_difference(f, x)), kFiniteDifferenceError);
}

TEST(Rotary, AnglesOfFarPositionsAreExactInAFloatModelToo) {
  const at::Tensor positions = at::tensor(std::vector<std::int64_t>{4'000'001});
  const RotaryTable table = make_rotary_table(positions, 2, 10000, at::kFloat);
  EXPECT_EQ(table.cos.scalar_type(), at::kFloat);
  EXPECT_NEAR(table.cos.item<double>(), std::cos(4'000'001.0), 1e-7);
  EXPECT_NEAR(table.sin.item<double>(), std::sin(4'000'001.0), 1e-7);
}

// A batch of `rows` rows over 11 words; every third row has no target.
PackedMicroBatch loss_batch(std::int64_t rows) {
  PackedMicroBatch batch;
  batch.targets = at::arange(rows, at::kLong).remainder(11);
  batch.target_weights = at::linspace(0.1, 0.9, rows, at::kDouble);
  for (std::int64_t row = 0; row < rows; row += 3) {
    batch.targets[row] = kNoTarget;
    batch.target_weights[row] = 0;
  }
  batch.num_targets = at::ne(batch.targets, kNoTarget).sum().item<std::int64_t>();
  return batch;
}

class LossChunks : public ::testing::TestWithParam<std::int64_t> {};
INSTANTIATE_TEST_SUITE_P(ChunkRows, LossChunks, ::testing::Values(1, 3, 5, 6, 7, 1024));

TEST_P(LossChunks, HeadAndLossMatchAutogradAndDifferencesForEveryChunkSize) {
  const at::Tensor hidden = random({9, 4}, "hidden");  // 6 targets
  const at::Tensor weight = random({11, 4}, "weight");
  const at::Tensor gradient = at::ones_like(weight);
  const PackedMicroBatch batch = loss_batch(9);
  CrossEntropyHead head(weight, gradient, GetParam());
  const auto [loss, d_hidden] = head.forward_backward(hidden, batch);

  const at::Tensor hidden_leaf = leaf(hidden);
  const at::Tensor weight_leaf = leaf(weight);
  const at::Tensor log_p = at::log_softmax(at::linear(hidden_leaf, weight_leaf), 1);
  const at::Tensor picked = log_p.gather(1, batch.targets.clamp_min(0).unsqueeze(1)).squeeze(1);
  const at::Tensor reference = -(picked * batch.target_weights).sum();
  reference.backward();
  EXPECT_NEAR(loss, reference.item<double>(), 1e-12);
  EXPECT_LT(relative_difference(d_hidden, hidden_leaf.grad()), kRoundingError);
  EXPECT_LT(relative_difference(gradient - 1, weight_leaf.grad()), kRoundingError);
  EXPECT_DOUBLE_EQ(head.loss(hidden, batch), loss);
  const auto f = [&] { return head.loss(hidden, batch); };
  EXPECT_LT(relative_difference(d_hidden, finite_difference(f, hidden)), kFiniteDifferenceError);
  EXPECT_LT(relative_difference(gradient - 1, finite_difference(f, weight)),
            kFiniteDifferenceError);
}

TEST(CrossEntropyHead, C007ARowWithoutATargetCannotPoisonLossOrGradients) {
  const at::Tensor clean = random({9, 4}, "hidden");
  at::Tensor poisoned = clean.clone();
  poisoned[3].fill_(std::numeric_limits<double>::infinity());
  poisoned[6].fill_(std::numeric_limits<double>::quiet_NaN());
  const PackedMicroBatch batch = loss_batch(9);
  const at::Tensor weight = random({11, 4}, "weight");
  std::vector<double> losses;
  std::vector<at::Tensor> results;
  for (const at::Tensor& hidden : {clean, poisoned}) {
    const at::Tensor gradient = at::zeros_like(weight);
    CrossEntropyHead head(weight, gradient, 2);
    const HeadResult result = head.forward_backward(hidden, batch);
    losses.push_back(result.loss);
    results.push_back(at::cat({result.d_hidden, gradient}));
  }
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_TRUE(results[0].equal(results[1]));
  EXPECT_TRUE(results[1].isfinite().all().item<bool>());
}

TEST(CrossEntropyHead, HugeLogitsStayFinite) {
  const at::Tensor hidden = at::full({2, 1}, 1000, at::kFloat);
  const at::Tensor weight = at::tensor({-1.0F, 0.0F, 1.0F}).unsqueeze(1);
  PackedMicroBatch batch;
  batch.targets = at::tensor(std::vector<std::int64_t>{2, 0});
  batch.target_weights = at::ones({2}, at::kDouble);
  batch.num_targets = 2;
  CrossEntropyHead head(weight, at::zeros_like(weight), 8);
  const HeadResult result = head.forward_backward(hidden, batch);
  EXPECT_DOUBLE_EQ(result.loss, 2000);
  EXPECT_TRUE(result.d_hidden.isfinite().all().item<bool>());
}

}  // namespace
}  // namespace weft
