// What backward begins with: sums of out * d_out, and gradients of 0.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "attention/attention_kernel.h"
#include "base/random.h"

namespace weft {
namespace {

constexpr std::int64_t kSpare = 7;  // elements behind what may be written

template <class T>
struct Started {
  std::vector<T> delta;      // [H][rows + kSpare]
  std::vector<T> gradients;  // [rows][H * D + 3], then kSpare
};

template <class T>
Started<T> start(const AttentionKernel& kernel, std::int64_t rows, std::int64_t heads,
                 std::int64_t head_dim) {
  const RandomStream random(5, "start of backward");
  std::vector<T> out(static_cast<std::size_t>(rows * heads * head_dim)), d_out(out.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<T>(random.normal(2 * i));
    d_out[i] = static_cast<T>(random.normal(2 * i + 1));
  }
  const std::int64_t gradients_row = heads * head_dim + 3;
  const T nan = std::numeric_limits<T>::quiet_NaN();
  Started<T> started{std::vector<T>(static_cast<std::size_t>(heads * (rows + kSpare)), nan),
                     std::vector<T>(static_cast<std::size_t>(rows * gradients_row + kSpare), nan)};
  kernel.start_backward(BackwardStart<T>{.num_rows = rows,
                                         .num_heads = heads,
                                         .head_dim = head_dim,
                                         .out = out.data(),
                                         .d_out = d_out.data(),
                                         .delta = {started.delta.data(), rows + kSpare},
                                         .gradients = started.gradients.data(),
                                         .gradients_row = gradients_row});
  return started;
}

template <class T>
void expect_equals_reference(std::int64_t rows, std::int64_t heads, std::int64_t head_dim,
                             double tolerance) {
  const Started<T> truth = start<T>(*make_reference_kernel(), rows, heads, head_dim);
  for (const int num_threads : {1, 3}) {
    SCOPED_TRACE(testing::Message() << rows << " rows, " << heads << " heads of " << head_dim
                                    << ", " << num_threads << " threads, seed 5");
    const Started<T> got = start<T>(*make_blocked_kernel(num_threads), rows, heads, head_dim);
    for (std::size_t i = 0; i < got.delta.size(); ++i) {
      const bool is_spare = static_cast<std::int64_t>(i) % (rows + kSpare) >= rows;
      ASSERT_EQ(std::isnan(got.delta[i]), is_spare) << "delta " << i;
      if (is_spare) continue;
      ASSERT_NEAR(got.delta[i], truth.delta[i], tolerance) << "delta " << i;
    }
    for (std::size_t i = 0; i < got.gradients.size(); ++i) {
      if (i + kSpare < got.gradients.size()) {
        ASSERT_EQ(got.gradients[i], 0) << "gradient " << i;
      } else {
        ASSERT_TRUE(std::isnan(got.gradients[i])) << "behind the gradients";
      }
    }
  }
}

TEST(StartBackward, EqualsTheReferenceAtTheEdgesOfItsTasksAndWritesNothingElse) {
  for (const std::int64_t rows : {0, 1, 511, 512, 513, 1025}) {
    for (const std::int64_t heads : {1, 3}) {
      for (const std::int64_t head_dim : {5, 64}) {
        expect_equals_reference<float>(rows, heads, head_dim, 1e-4);
        expect_equals_reference<double>(rows, heads, head_dim, 1e-12);
      }
    }
  }
}

}  // namespace
}  // namespace weft
