// The kernels of attention and of the loss on the SIMD level that this program is compiled for,
// against plain loops in double: exit 0 when they agree. Needs no tensors, so that it can be built
// for a processor that is not at hand (neon_test.py).
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include <hwy/aligned_allocator.h>
#include <hwy/highway.h>

#include "attention/attention_kernel.h"
#include "model/softmax_rows.h"

// All that the kernels need of Highway's library, which is for another processor here.
namespace hwy {
void* AllocateAlignedBytes(std::size_t bytes, AllocPtr /*alloc*/, void* /*opaque*/) {
  constexpr std::size_t kAlignment = 128;
  return std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
}
void FreeAlignedBytes(const void* pointer, FreePtr /*free*/, void* /*opaque*/) {
  std::free(const_cast<void*>(pointer));
}
}  // namespace hwy

namespace weft {
namespace {

struct Shape {
  std::int64_t queries, keys, heads, kv_heads, head_dim, q_begin, k_begin;
};

// One pair of runs, with room for everything that forward and backward read and write.
template <class T>
struct Arrays {
  Shape shape;
  std::vector<T> q, k, v, out, lse, d_out, delta, d_q, d_k, d_v;

  explicit Arrays(const Shape& s)
      : shape(s),
        q(elements(s.queries, s.heads)),
        k(elements(s.keys, s.kv_heads)),
        v(k.size()),
        out(q.size()),
        lse(static_cast<std::size_t>(s.heads * s.queries), -std::numeric_limits<T>::infinity()),
        d_out(q.size()),
        delta(lse.size()),
        d_q(q.size()),
        d_k(k.size()),
        d_v(k.size()) {}

  std::size_t elements(std::int64_t rows, std::int64_t heads) const {
    return static_cast<std::size_t>(rows * heads * shape.head_dim);
  }
  template <class U>
  HeadRows<U> rows(U* data, std::int64_t num_rows, std::int64_t heads) const {
    return {data, num_rows, heads, shape.head_dim, heads * shape.head_dim};
  }
  double scale() const { return 1 / std::sqrt(static_cast<double>(shape.head_dim)); }

  void forward(const AttentionKernel& kernel) {
    const Shape& s = shape;
    kernel.forward(ForwardPair<T>{.q = rows<const T>(q.data(), s.queries, s.heads),
                                  .k = rows<const T>(k.data(), s.keys, s.kv_heads),
                                  .v = rows<const T>(v.data(), s.keys, s.kv_heads),
                                  .q_begin = s.q_begin,
                                  .k_begin = s.k_begin,
                                  .scale = scale(),
                                  .out = rows<T>(out.data(), s.queries, s.heads),
                                  .lse = {lse.data(), s.queries}});
  }
  void backward(const AttentionKernel& kernel) {
    const Shape& s = shape;
    const auto dim = static_cast<std::size_t>(s.head_dim);
    for (std::int64_t row = 0; row < s.queries; ++row) {
      for (std::int64_t head = 0; head < s.heads; ++head) {
        double sum = 0;
        for (std::size_t i = 0; i < dim; ++i) {
          const std::size_t at = static_cast<std::size_t>(row * s.heads + head) * dim + i;
          sum += static_cast<double>(out[at]) * static_cast<double>(d_out[at]);
        }
        delta[static_cast<std::size_t>(head * s.queries + row)] = static_cast<T>(sum);
      }
    }
    kernel.backward(BackwardPair<T>{.q = rows<const T>(q.data(), s.queries, s.heads),
                                    .k = rows<const T>(k.data(), s.keys, s.kv_heads),
                                    .v = rows<const T>(v.data(), s.keys, s.kv_heads),
                                    .d_out = rows<const T>(d_out.data(), s.queries, s.heads),
                                    .lse = {lse.data(), s.queries},
                                    .delta = {delta.data(), s.queries},
                                    .q_begin = s.q_begin,
                                    .k_begin = s.k_begin,
                                    .scale = scale(),
                                    .d_q = rows<T>(d_q.data(), s.queries, s.heads),
                                    .d_k = rows<T>(d_k.data(), s.keys, s.kv_heads),
                                    .d_v = rows<T>(d_v.data(), s.keys, s.kv_heads)});
  }
};

// Largest difference over the largest value, or over a tenth where all values are smaller: inputs
// are of the size of 1, and some gradients are 0.
template <class T>
double relative_error(const std::vector<T>& found, const std::vector<double>& truth) {
  double difference = 0, size = 0.1;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    if (std::isinf(truth[i]) && static_cast<double>(found[i]) == truth[i]) continue;
    difference = std::max(difference, std::abs(static_cast<double>(found[i]) - truth[i]));
    size = std::max(size, std::abs(truth[i]));
    if (!std::isfinite(static_cast<double>(found[i])))
      return std::numeric_limits<double>::infinity();
  }
  return difference / size;
}

// Returns the largest relative error of the kernel in T against the reference in double.
template <class T>
double attention_error(const Shape& shape, std::uint64_t seed) {
  Arrays<T> blocked(shape);
  Arrays<double> reference(shape);
  std::mt19937_64 random(seed);
  const auto fill = [&](std::vector<T>& to, std::vector<double>& copy) {
    for (std::size_t i = 0; i < to.size(); ++i) {
      to[i] = static_cast<T>(static_cast<double>(random() % 2001) / 1000 - 1);
      copy[i] = static_cast<double>(to[i]);
    }
  };
  fill(blocked.q, reference.q);
  fill(blocked.k, reference.k);
  fill(blocked.v, reference.v);
  fill(blocked.d_out, reference.d_out);
  const auto kernel = make_blocked_kernel(2);
  const auto truth = make_reference_kernel();
  blocked.forward(*kernel);
  reference.forward(*truth);
  blocked.backward(*kernel);
  reference.backward(*truth);
  double worst = 0;
  worst = std::max(worst, relative_error(blocked.out, reference.out));
  worst = std::max(worst, relative_error(blocked.lse, reference.lse));
  worst = std::max(worst, relative_error(blocked.d_q, reference.d_q));
  worst = std::max(worst, relative_error(blocked.d_k, reference.d_k));
  worst = std::max(worst, relative_error(blocked.d_v, reference.d_v));
  return worst;
}

template <class T>
bool check_attention(const char* name, double tolerance) {
  const Shape shapes[] = {{1, 1, 1, 1, 32, 0, 0},      {5, 5, 2, 1, 32, 0, 0},
                          {63, 64, 4, 2, 64, 1, 0},    {65, 130, 4, 4, 64, 65, 0},
                          {100, 97, 6, 2, 128, 40, 0}, {33, 50, 8, 1, 256, 0, 20},
                          {7, 40, 2, 2, 40, 100, 0}};
  double worst = 0;
  std::uint64_t seed = 0;
  for (const Shape& shape : shapes) {
    const double error = attention_error<T>(shape, ++seed);
    if (error > tolerance) {
      std::printf("attention, %s, seed %d: error %g, at most %g\n", name, static_cast<int>(seed),
                  error, tolerance);
      return false;
    }
    worst = std::max(worst, error);
  }
  std::printf("attention, %s: largest error %g\n", name, worst);
  return true;
}

template <class T>
bool check_softmax(const char* name, double tolerance) {
  double worst = 0;
  for (const std::int64_t size : {1, 2, 3, 7, 8, 9, 31, 64, 1000}) {
    std::mt19937_64 random(static_cast<std::uint64_t>(size));
    std::vector<T> logits;
    for (std::int64_t i = 0; i < size; ++i)
      logits.push_back(static_cast<T>(static_cast<double>(random() % 10001) / 1000 - 5));
    const std::int64_t target = size / 2;
    const double weight = 0.5;
    double sum = 0;
    for (const T logit : logits) sum += std::exp(static_cast<double>(logit));
    std::vector<double> truth;
    for (std::int64_t i = 0; i < size; ++i) {
      const double share = std::exp(static_cast<double>(logits[static_cast<std::size_t>(i)])) / sum;
      truth.push_back(weight * (share - (i == target ? 1 : 0)));
    }
    const double loss =
        weight * (std::log(sum) - static_cast<double>(logits[static_cast<std::size_t>(target)]));
    double found = 0;
    softmax_gradients(SoftmaxRows<T>{logits.data(), &target, &weight, &found, 1, size});
    // A row of one word has neither loss nor gradient.
    double error = std::abs(found - loss);
    for (std::size_t i = 0; i < truth.size(); ++i)
      error = std::max(error, std::abs(static_cast<double>(logits[i]) - truth[i]));
    if (!(error <= tolerance)) {
      std::printf("softmax, %s, %d words: error %g, at most %g\n", name, static_cast<int>(size),
                  error, tolerance);
      return false;
    }
    worst = std::max(worst, error);
  }
  std::printf("softmax, %s: largest error %g\n", name, worst);
  return true;
}

}  // namespace
}  // namespace weft

int main() {
  std::printf("compiled for %s\n", hwy::TargetName(HWY_TARGET));
  const bool is_right = weft::check_attention<float>("float", 2e-6) &&
                        weft::check_attention<double>("double", 1e-13) &&
                        weft::check_softmax<float>("float", 1e-6) &&
                        weft::check_softmax<double>("double", 1e-14);
  return is_right ? EXIT_SUCCESS : EXIT_FAILURE;
}
