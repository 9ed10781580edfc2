#include <cmath>
#include <limits>
#include <vector>

#include "attention/attention_kernel.h"
#include "attention/kernel_shapes.h"
#include "attention/lse_merge.h"

namespace weft {
namespace {

// In the order and with the rounding of dot_rows(): where one key is all that a row sees, the two
// terms of its score's gradient cancel exactly.
template <class T>
T dot(const T* a, const T* b, std::int64_t size) {
  T sum = 0;
  for (std::int64_t d = 0; d < size; ++d) sum = std::fma(a[d], b[d], sum);
  return sum;
}

template <class T>
void add_scaled(T* to, T factor, const T* from, std::int64_t size) {
  for (std::int64_t d = 0; d < size; ++d) to[d] += factor * from[d];
}

template <class T>
void forward_reference(const ForwardPair<T>& pair) {
  check_pair(pair);
  const std::int64_t head_dim = pair.q.head_dim;
  const std::int64_t share = pair.q.num_heads / pair.k.num_heads;
  const T scale = static_cast<T>(pair.scale);
  std::vector<T> weights(static_cast<std::size_t>(pair.k.num_rows));
  std::vector<T> partial(static_cast<std::size_t>(head_dim));
  for (std::int64_t head = 0; head < pair.q.num_heads; ++head) {
    for (std::int64_t row = 0; row < pair.q.num_rows; ++row) {
      const std::int64_t num_keys =
          num_visible_keys(pair.q_begin + row, pair.k_begin, pair.k.num_rows);
      if (num_keys == 0) continue;
      const T* query = head_row(pair.q, row, head);
      T largest = -std::numeric_limits<T>::infinity();
      for (std::int64_t key = 0; key < num_keys; ++key) {
        weights[key] = scale * dot(query, head_row(pair.k, key, head / share), head_dim);
        largest = std::max(largest, weights[key]);
      }
      T sum = 0;
      std::fill(partial.begin(), partial.end(), T(0));
      for (std::int64_t key = 0; key < num_keys; ++key) {
        const T weight = std::exp(weights[key] - largest);
        sum += weight;
        add_scaled(partial.data(), weight, head_row(pair.v, key, head / share), head_dim);
      }
      merge_row(head_row(pair.out, row, head), row_stat(pair.lse, head, row), partial.data(),
                1 / sum, largest + std::log(sum), head_dim);
    }
  }
}

template <class T>
void start_reference(const BackwardStart<T>& start) {
  for (std::int64_t row = 0; row < start.num_rows; ++row) {
    for (std::int64_t head = 0; head < start.num_heads; ++head) {
      const std::int64_t at = (row * start.num_heads + head) * start.head_dim;
      row_stat(start.delta, head, row) = dot(start.out + at, start.d_out + at, start.head_dim);
    }
  }
  std::fill_n(start.gradients, start.num_rows * start.gradients_row, T(0));
}

template <class T>
void backward_reference(const BackwardPair<T>& pair) {
  check_pair(pair);
  const std::int64_t head_dim = pair.q.head_dim;
  const std::int64_t share = pair.q.num_heads / pair.k.num_heads;
  const T scale = static_cast<T>(pair.scale);
  for (std::int64_t head = 0; head < pair.q.num_heads; ++head) {
    for (std::int64_t row = 0; row < pair.q.num_rows; ++row) {
      const std::int64_t num_keys =
          num_visible_keys(pair.q_begin + row, pair.k_begin, pair.k.num_rows);
      const T lse = row_stat(pair.lse, head, row);
      const T delta = row_stat(pair.delta, head, row);
      const T* query = head_row(pair.q, row, head);
      const T* d_out = head_row(pair.d_out, row, head);
      for (std::int64_t key = 0; key < num_keys; ++key) {
        const T* k = head_row(pair.k, key, head / share);
        const T* v = head_row(pair.v, key, head / share);
        const T weight = std::exp(scale * dot(query, k, head_dim) - lse);
        const T d_score = scale * weight * (dot(d_out, v, head_dim) - delta);
        add_scaled(head_row(pair.d_q, row, head), d_score, k, head_dim);
        add_scaled(head_row(pair.d_k, key, head / share), d_score, query, head_dim);
        add_scaled(head_row(pair.d_v, key, head / share), weight, d_out, head_dim);
      }
    }
  }
}

class ReferenceKernel final : public AttentionKernel {
 public:
  std::string_view name() const override { return "reference"; }
  void forward(std::span<const ForwardPair<float>> pairs) const override {
    for (const auto& pair : pairs) forward_reference(pair);
  }
  void forward(std::span<const ForwardPair<double>> pairs) const override {
    for (const auto& pair : pairs) forward_reference(pair);
  }
  void start_backward(const BackwardStart<float>& start) const override { start_reference(start); }
  void start_backward(const BackwardStart<double>& start) const override { start_reference(start); }
  void backward(std::span<const BackwardPair<float>> pairs) const override {
    for (const auto& pair : pairs) backward_reference(pair);
  }
  void backward(std::span<const BackwardPair<double>> pairs) const override {
    for (const auto& pair : pairs) backward_reference(pair);
  }
};

}  // namespace

std::unique_ptr<AttentionKernel> make_reference_kernel() {
  return std::make_unique<ReferenceKernel>();
}

}  // namespace weft
