// attention_forward and attention_backward over whole sequences of one rank.
#include "attention/attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "tests/unit/attention/dense_oracle.h"
#include "tests/unit/attention/pack.h"

namespace weft {
namespace {

class PackedAttention : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<AttentionKernel> kernel_ = make_attention_kernel(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Kernels, PackedAttention, testing::Values("reference", "blocked"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(PackedAttention, EachSequenceOfAPackEqualsItsOwnDenseAttention) {
  const std::vector<std::int64_t> lengths{3, 1, 150, 2, 64, 65, 1};
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const double tolerance = dtype == at::kFloat ? 2e-6 : 1e-13;
    const Pack pack(20, lengths, {4, 2, 24}, dtype);
    const AttentionResult result = pack.forward(*kernel_);
    const Qkv gradients = pack.backward(*kernel_, result);
    for (const PieceRows& piece : pack.layout.whole) {
      SCOPED_TRACE(fmt::format("{} tokens at row {}, seed 20", piece.range.size(), piece.row));
      const auto rows = [&](const at::Tensor& tensor) {
        return tensor.narrow(0, piece.row, piece.range.size());
      };
      const DenseGradients dense =
          dense_attention_gradients(rows(pack.q), rows(pack.k), rows(pack.v), rows(pack.d_out));
      EXPECT_LT(relative_error(result.lse.narrow(1, piece.row, piece.range.size()), dense.lse),
                tolerance);
      EXPECT_LT(largest_error(rows(result.out), rows(gradients.q), rows(gradients.k),
                              rows(gradients.v), dense),
                tolerance);
    }
  }
}

TEST_P(PackedAttention, DocumentBIsBitEqualWhateverDocumentAHolds) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const Pack pack(30, {70, 90}, {4, 2, 16}, dtype);
    Pack other = pack;
    for (at::Tensor* tensor : {&other.q, &other.k, &other.v, &other.d_out}) {
      *tensor = tensor->clone();
      tensor->narrow(0, 0, 70).copy_(random_tensor(99, tensor->narrow(0, 0, 70).sizes(), dtype));
    }
    const AttentionResult result = pack.forward(*kernel_), changed = other.forward(*kernel_);
    const Qkv gradients = pack.backward(*kernel_, result);
    const Qkv changed_gradients = other.backward(*kernel_, changed);
    const auto of_b = [](const at::Tensor& tensor) { return tensor.narrow(0, 70, 90); };
    EXPECT_FALSE(at::equal(result.out, changed.out));
    EXPECT_TRUE(at::equal(of_b(result.out), of_b(changed.out)));
    EXPECT_TRUE(at::equal(result.lse.narrow(1, 70, 90), changed.lse.narrow(1, 70, 90)));
    EXPECT_TRUE(at::equal(of_b(gradients.q), of_b(changed_gradients.q)));
    EXPECT_TRUE(at::equal(of_b(gradients.k), of_b(changed_gradients.k)));
    EXPECT_TRUE(at::equal(of_b(gradients.v), of_b(changed_gradients.v)));
  }
}

TEST_P(PackedAttention, RowsThatLieApartGiveTheSameBits) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const Pack pack(35, {33, 1, 70}, {4, 2, 16}, dtype);
    const at::Tensor rows = at::cat({pack.q, pack.k, pack.v}, 1).flatten(1);  // [T, (H + 2 K) D]
    const Qkv heads = split_qkv(pack.shape, rows);
    Pack apart = pack;
    apart.q = heads.q;
    apart.k = heads.k;
    apart.v = heads.v;
    const AttentionResult result = pack.forward(*kernel_), other = apart.forward(*kernel_);
    EXPECT_TRUE(at::equal(result.out, other.out));
    EXPECT_TRUE(at::equal(result.lse, other.lse));
    EXPECT_TRUE(other.out.is_contiguous());
    const Qkv gradients = apart.backward(*kernel_, other);
    EXPECT_TRUE(at::equal(gradients.packed, pack.backward(*kernel_, result).packed));
    EXPECT_TRUE(at::equal(gradients.packed,
                          at::cat({gradients.q, gradients.k, gradients.v}, 1).flatten(1)));
  }
}

TEST_P(PackedAttention, LaterTokensDoNotChangeEarlierRows) {
  const Pack pack(40, {100}, {2, 1, 16}, at::kFloat);
  Pack other = pack;
  other.k = pack.k.clone();
  other.k.narrow(0, 60, 40).mul_(-3);
  const at::Tensor out = pack.forward(*kernel_).out, changed = other.forward(*kernel_).out;
  EXPECT_TRUE(at::equal(out.narrow(0, 0, 60), changed.narrow(0, 0, 60)));
  EXPECT_FALSE(at::equal(out.narrow(0, 60, 40), changed.narrow(0, 60, 40)));
}

TEST_P(PackedAttention, MicroBatchOfNoRowsIsLegal) {
  const Pack pack(50, {}, {2, 1, 4}, at::kFloat);
  const AttentionResult result = pack.forward(*kernel_);
  EXPECT_EQ(result.out.sizes(), (std::vector<std::int64_t>{0, 2, 4}));
  EXPECT_EQ(result.lse.sizes(), (std::vector<std::int64_t>{2, 0}));
  EXPECT_EQ(pack.backward(*kernel_, result).k.numel(), 0);
}

template <class ErrorType>
void expect_refused(const Pack& pack, const char* words) {
  try {
    pack.forward(*make_reference_kernel());
    FAIL() << "must be refused: " << words;
  } catch (const ErrorType& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(words));
  }
}

TEST(AttentionChecks, WrongShapesDtypesAndStridesAreNamed) {
  const Pack good(60, {5, 6}, {4, 2, 8}, at::kFloat);
  Pack half = good;
  half.q = good.q.to(at::kHalf);
  expect_refused<UserError>(half, "float32 or float64");
  Pack mixed = good;
  mixed.v = good.v.to(at::kDouble);
  expect_refused<InternalError>(mixed, "v must be float32 as q is, got float64");
  Pack short_rows = good;
  short_rows.k = good.k.narrow(0, 0, 10);
  expect_refused<InternalError>(short_rows, "k must be [11, 2, 8], got [10, 2, 8]");
  Pack strided = good;
  strided.q = at::cat({good.q, good.q}, 2).narrow(2, 0, 8);
  expect_refused<InternalError>(strided, "q [11, 4, 8] must have contiguous rows");
  Pack uneven = good;
  uneven.shape.num_kv_heads = 3;
  expect_refused<UserError>(uneven, "4 heads, 3 key/value heads");
  const GroupSlice group;
  Pack alone = good;
  alone.layout.shared.push_back({&group, {}});
  expect_refused<InternalError>(alone, "no communicator");
}

}  // namespace
}  // namespace weft
