#include "model/softmax_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"
#include "tensor/tensor.h"

namespace weft {
namespace {

template <class T>
struct Rows {
  Rows(std::int64_t num_rows, std::int64_t vocab_size, double spread, std::uint64_t seed)
      : logits(static_cast<std::size_t>(num_rows * vocab_size)),
        losses(static_cast<std::size_t>(num_rows)),
        size(vocab_size) {
    const RandomStream stream(seed, "softmax rows");
    for (std::size_t i = 0; i < logits.size(); ++i) {
      logits[i] = static_cast<T>(spread * stream.normal(i));
    }
    for (std::int64_t r = 0; r < num_rows; ++r) {
      targets.push_back(static_cast<std::int64_t>(stream.bits(static_cast<std::uint64_t>(r)) %
                                                  static_cast<std::uint64_t>(vocab_size)));
      weights.push_back(0.25 + 0.5 * static_cast<double>(r % 3));
    }
  }
  SoftmaxRows<T> view() {
    return {.logits = logits.data(),
            .targets = targets.data(),
            .weights = weights.data(),
            .losses = losses.data(),
            .num_rows = static_cast<std::int64_t>(losses.size()),
            .vocab_size = size};
  }
  std::vector<T> logits;
  std::vector<double> losses;
  std::vector<std::int64_t> targets;
  std::vector<double> weights;
  std::int64_t size;
};

// In long double, so that it is no worse than what it judges.
template <class T>
void expect_exact(const Rows<T>& before, Rows<T>& after, long double tolerance) {
  for (std::size_t r = 0; r < before.losses.size(); ++r) {
    const T* row = before.logits.data() + r * static_cast<std::size_t>(before.size);
    long double largest = row[0], sum = 0;
    for (std::int64_t i = 0; i < before.size; ++i) largest = std::max<long double>(largest, row[i]);
    for (std::int64_t i = 0; i < before.size; ++i) sum += std::exp(row[i] - largest);
    const long double lse = largest + std::log(sum);
    const long double weight = before.weights[r];
    EXPECT_NEAR(after.losses[r], weight * (lse - row[before.targets[r]]),
                tolerance * (1 + std::abs(lse)));
    for (std::int64_t i = 0; i < before.size; ++i) {
      const long double softmax = std::exp(row[i] - lse);
      const long double expected = weight * (softmax - (i == before.targets[r] ? 1 : 0));
      EXPECT_NEAR(
          after.logits[r * static_cast<std::size_t>(before.size) + static_cast<std::size_t>(i)],
          expected, tolerance)
          << "row " << r << " element " << i << " of " << before.size;
    }
  }
}

template <class T>
void sweep(long double tolerance) {
  for (const std::int64_t vocab_size : {1, 2, 3, 7, 8, 15, 16, 17, 63, 64, 65, 127, 1000}) {
    for (const double spread : {0.0, 1.0, 30.0, 1000.0}) {
      SCOPED_TRACE(testing::Message() << "vocabulary " << vocab_size << " spread " << spread);
      const Rows<T> before(5, vocab_size, spread, 17);
      Rows<T> gradients = before, losses = before;
      softmax_gradients(gradients.view());
      expect_exact(before, gradients, tolerance);
      softmax_losses(losses.view());
      EXPECT_EQ(losses.losses, gradients.losses);
      EXPECT_EQ(losses.logits, before.logits) << "losses alone must leave the logits";
    }
  }
}

TEST(SoftmaxRows, FloatLossesAndGradientsAreThoseOfLongDouble) { sweep<float>(4e-6L); }
TEST(SoftmaxRows, DoubleLossesAndGradientsAreThoseOfLongDouble) { sweep<double>(4e-15L); }

TEST(SoftmaxRows, NoRowsIsLegal) {
  Rows<float> none(0, 5, 1, 1);
  softmax_gradients(none.view());
  softmax_losses(none.view());
}

TEST(SoftmaxRows, ImpossibleWordsGetNoProbabilityAndBadLogitsANanLoss) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const std::int64_t vocab_size : {3, 40}) {
    for (std::int64_t place = 0; place < vocab_size; ++place) {
      Rows<float> never(1, vocab_size, 1, 3), nan = never, endless = never;
      const auto i = static_cast<std::size_t>(place);
      never.targets[0] = (place + 1) % vocab_size;
      never.logits[i] = -inf;
      softmax_gradients(never.view());
      EXPECT_EQ(never.logits[i], 0);
      EXPECT_TRUE(std::isfinite(never.losses[0]));
      nan.logits[i] = std::numeric_limits<float>::quiet_NaN();
      softmax_gradients(nan.view());
      EXPECT_TRUE(std::isnan(nan.losses[0])) << place << " of " << vocab_size;
      endless.logits[i] = inf;
      softmax_losses(endless.view());
      EXPECT_TRUE(std::isnan(endless.losses[0])) << place << " of " << vocab_size;
    }
  }
}

}  // namespace
}  // namespace weft
