// Rows whose element offsets lie beyond 2^31 and 2^32, in sparse memory of which only the touched
// pages exist.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <limits>

#include "attention/attention_kernel.h"
#include "tests/unit/attention/dense_oracle.h"

namespace weft {
namespace {

constexpr std::int64_t kTokens = 6;
constexpr std::int64_t kRowStride =
    (std::int64_t{1} << 30) + 5;  // row 2 is beyond 2^31, row 4 beyond 2^32
constexpr std::int64_t kHeadStride = (std::int64_t{1} << 31) + 3;

// [kTokens] rows, kRowStride apart; zero where never written.
class SparseFloats {
 public:
  explicit SparseFloats(std::int64_t size)
      : bytes_(static_cast<std::size_t>(size) * sizeof(float)),
        data_(::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  ~SparseFloats() {
    if (ok()) ::munmap(data_, bytes_);
  }
  SparseFloats(const SparseFloats&) = delete;
  SparseFloats& operator=(const SparseFloats&) = delete;

  bool ok() const { return data_ != MAP_FAILED; }
  float* data() const { return static_cast<float*>(data_); }

 private:
  std::size_t bytes_;
  void* data_;
};

struct SparseRows {
  SparseFloats memory{kTokens * kRowStride};
  std::int64_t num_heads;
  std::int64_t head_dim;
  SparseRows(std::int64_t heads, std::int64_t dim) : num_heads(heads), head_dim(dim) {}

  void write(const at::Tensor& rows) {  // [kTokens, heads, D]
    const float* from = rows.data_ptr<float>();
    const std::int64_t width = num_heads * head_dim;
    for (std::int64_t row = 0; row < kTokens; ++row) {
      std::copy_n(from + row * width, width, memory.data() + row * kRowStride);
    }
  }
  at::Tensor read() const {
    at::Tensor rows = at::empty({kTokens, num_heads, head_dim}, at::kFloat);
    const std::int64_t width = num_heads * head_dim;
    for (std::int64_t row = 0; row < kTokens; ++row) {
      std::copy_n(memory.data() + row * kRowStride, width, rows.data_ptr<float>() + row * width);
    }
    return rows;
  }
  HeadRows<const float> in() const {
    return {memory.data(), kTokens, num_heads, head_dim, kRowStride};
  }
  HeadRows<float> out() { return {memory.data(), kTokens, num_heads, head_dim, kRowStride}; }
};

class LargeOffsets : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Kernels, LargeOffsets, testing::Values("reference", "blocked"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(LargeOffsets, RowsBeyondTwoToThe32AreReadAndWrittenWhereTheyAre) {
  const auto kernel = make_attention_kernel(GetParam());
  const std::int64_t heads = 2, dim = 4;
  SparseRows q(heads, dim), k(1, dim), v(1, dim), out(heads, dim), d_out(heads, dim);
  SparseRows d_q(heads, dim), d_k(1, dim), d_v(1, dim);
  SparseFloats lse(heads * kHeadStride), delta(heads * kHeadStride);
  for (const SparseRows* rows : {&q, &k, &v, &out, &d_out, &d_q, &d_k, &d_v}) {
    if (!rows->memory.ok()) GTEST_SKIP() << "the system does not lend sparse memory";
  }
  if (!lse.ok() || !delta.ok()) GTEST_SKIP() << "the system does not lend sparse memory";

  const at::Tensor q_rows = random_tensor(1, {kTokens, heads, dim}, at::kFloat);
  const at::Tensor k_rows = random_tensor(2, {kTokens, 1, dim}, at::kFloat);
  const at::Tensor v_rows = random_tensor(3, {kTokens, 1, dim}, at::kFloat);
  const at::Tensor d_out_rows = random_tensor(4, {kTokens, heads, dim}, at::kFloat);
  q.write(q_rows);
  k.write(k_rows);
  v.write(v_rows);
  d_out.write(d_out_rows);
  const DenseGradients dense = dense_attention_gradients(q_rows, k_rows, v_rows, d_out_rows);
  const at::Tensor dense_delta = (dense.out * d_out_rows).sum(-1);  // [T, H]
  for (std::int64_t head = 0; head < heads; ++head) {
    for (std::int64_t row = 0; row < kTokens; ++row) {
      lse.data()[head * kHeadStride + row] = -std::numeric_limits<float>::infinity();
      delta.data()[head * kHeadStride + row] =
          static_cast<float>(dense_delta[row][head].item<double>());
    }
  }
  kernel->forward(ForwardPair<float>{.q = q.in(),
                                     .k = k.in(),
                                     .v = v.in(),
                                     .scale = 0.5,
                                     .out = out.out(),
                                     .lse = {lse.data(), kHeadStride}});
  kernel->backward(BackwardPair<float>{.q = q.in(),
                                       .k = k.in(),
                                       .v = v.in(),
                                       .d_out = d_out.in(),
                                       .lse = {lse.data(), kHeadStride},
                                       .delta = {delta.data(), kHeadStride},
                                       .scale = 0.5,
                                       .d_q = d_q.out(),
                                       .d_k = d_k.out(),
                                       .d_v = d_v.out()});
  EXPECT_LT(relative_error(out.read(), dense.out), 1e-6);
  EXPECT_LT(relative_error(d_q.read(), dense.d_q), 2e-6);
  EXPECT_LT(relative_error(d_k.read(), dense.d_k), 2e-6);
  EXPECT_LT(relative_error(d_v.read(), dense.d_v), 2e-6);
  for (std::int64_t head = 0; head < heads; ++head) {
    for (std::int64_t row = 0; row < kTokens; ++row) {
      EXPECT_NEAR(lse.data()[head * kHeadStride + row], dense.lse[head][row].item<double>(), 1e-5);
    }
  }
}

}  // namespace
}  // namespace weft
