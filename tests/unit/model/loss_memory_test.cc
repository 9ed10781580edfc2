// The output head over large vocabularies: chunks give the gradients of one piece, and their memory
// does not grow with tokens x vocabulary.
//
// WEFT_LONG_TESTS=1 in the environment runs the bar's 131,072 tokens x 151,936 words in full.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "cost/memory_model.h"
#include "memory/counting_allocator.h"
#include "model/cross_entropy.h"

namespace weft {
namespace {

// Every row but each seventh has a target.
PackedMicroBatch batch_of(std::int64_t rows, std::int64_t vocab) {
  PackedMicroBatch batch;
  batch.targets = at::arange(rows, at::kLong).mul_(7919).remainder_(vocab);
  batch.target_weights = at::linspace(0.1, 0.9, rows, at::kDouble);
  for (std::int64_t row = 0; row < rows; row += 7) {
    batch.targets[row] = kNoTarget;
    batch.target_weights[row] = 0;
  }
  batch.num_targets = at::ne(batch.targets, kNoTarget).sum().item<std::int64_t>();
  return batch;
}

at::Tensor waves(at::IntArrayRef shape, double step, at::ScalarType dtype) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return at::arange(count, at::kDouble).mul_(step).sin_().to(dtype).view(shape);
}

struct LossResult {
  double loss = 0;
  at::Tensor d_hidden;  // [T, E]
  at::Tensor d_weight;  // [V, E]
};

LossResult run_loss(at::ScalarType dtype, std::int64_t chunk_rows) {
  constexpr std::int64_t kRows = 2048, kVocab = 3000, kHidden = 24;
  const at::Tensor hidden = waves({kRows, kHidden}, 0.37, dtype);
  const at::Tensor weight = waves({kVocab, kHidden}, 0.11, dtype);
  LossResult result;
  result.d_weight = at::zeros_like(weight);
  CrossEntropyHead head(weight, result.d_weight, chunk_rows);
  HeadResult head_result = head.forward_backward(hidden, batch_of(kRows, kVocab));
  result.loss = head_result.loss;
  result.d_hidden = std::move(head_result.d_hidden);
  return result;
}

double relative_error(const at::Tensor& a, const at::Tensor& reference) {
  return at::sub(a.to(at::kDouble), reference.to(at::kDouble)).norm().item<double>() /
         reference.to(at::kDouble).norm().item<double>();
}

// Bar: chunked = unchunked gradients at 2,048 tokens.
TEST(LossMemory, ChunkedGradientsAreTheUnchunkedOnesAt2048Tokens) {
  set_blas_threads(1);  // small products gain nothing from more, and a busy machine loses much
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const double rounding = dtype == at::kFloat ? 1e-6 : 1e-14;
    const LossResult whole = run_loss(dtype, 2048);
    EXPECT_GT(whole.loss, 0);
    for (const std::int64_t chunk_rows : {37, 220, 1023, 1024, 2047}) {
      const LossResult chunked = run_loss(dtype, chunk_rows);
      EXPECT_NEAR(chunked.loss, whole.loss, rounding * whole.loss) << chunk_rows;
      EXPECT_LT(relative_error(chunked.d_hidden, whole.d_hidden), rounding) << chunk_rows;
      EXPECT_LT(relative_error(chunked.d_weight, whole.d_weight), 10 * rounding) << chunk_rows;
    }
  }
}

// What forward and backward of the head take beside hidden [T, E], weights and their gradient.
Bytes loss_peak(std::int64_t rows, std::int64_t vocab, std::int64_t hidden_size,
                at::ScalarType dtype) {
  const at::Tensor hidden = waves({rows, hidden_size}, 0.37, dtype);
  const at::Tensor weight = waves({vocab, hidden_size}, 0.11, dtype);
  CrossEntropyHead head(weight, at::zeros_like(weight),
                        loss_chunk_rows(vocab, hidden.element_size()));
  const PackedMicroBatch batch = batch_of(rows, vocab);
  AllocationCounter counter;
  const AllocationScope scope(counter);
  EXPECT_TRUE(std::isfinite(head.forward_backward(hidden, batch).loss));
  return counter.peak();
}

// From docs/memory.md, less `hidden`, which stands outside here.
Bytes predicted_loss_peak(std::int64_t rows, std::int64_t vocab, std::int64_t hidden_size,
                          std::int64_t element_bytes) {
  const std::int64_t targets = rows - (rows + 6) / 7;
  const std::int64_t chunk = std::min(targets, loss_chunk_rows(vocab, element_bytes));
  return Bytes(element_bytes * (rows * hidden_size + chunk * (vocab + 2 * hidden_size)) +
               24 * targets);
}

// Bar (case C098): under 1 GB at 131,072 tokens x 151,936 words.
TEST(LossMemory, C098PeakStaysUnderOneGigabyteAt131072TokensOf151936Words) {
  install_counting_allocator();
  set_blas_threads(1);
  constexpr std::int64_t kVocab = 151'936, kHidden = 8;
  constexpr std::int64_t kAllRows = 131'072;
  constexpr Bytes kGigabyte(1'000'000'000);
  // The same shape with fewer chunks, against the formula.
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const std::int64_t width = dtype == at::kFloat ? 4 : 8;
    const std::int64_t chunk = loss_chunk_rows(kVocab, width);
    for (const std::int64_t rows : {chunk / 2, 2 * chunk + 1}) {
      const Bytes predicted = predicted_loss_peak(rows, kVocab, kHidden, width);
      const Bytes measured = loss_peak(rows, kVocab, kHidden, dtype);
      EXPECT_GE(measured, predicted * 99 / 100) << rows;
      EXPECT_LE(measured, predicted + 64_KiB) << rows;
    }
    EXPECT_LT(predicted_loss_peak(kAllRows, kVocab, kHidden, width), kGigabyte);
  }
  if (std::getenv("WEFT_LONG_TESTS") == nullptr) return;
  const Bytes measured = loss_peak(kAllRows, kVocab, kHidden, at::kFloat);
  std::printf("131,072 tokens x 151,936 words: peak %s, predicted %s\n",
              format_bytes(measured).c_str(),
              format_bytes(predicted_loss_peak(kAllRows, kVocab, kHidden, 4)).c_str());
  EXPECT_LT(measured, kGigabyte);
  EXPECT_LE(measured, predicted_loss_peak(kAllRows, kVocab, kHidden, 4) + 64_KiB);
}

TEST(LossMemory, AWordOfHugeLogitHasProbabilityOne) {
  const at::Tensor hidden = at::full({2, 1}, 3e38, at::kFloat);
  const at::Tensor weight = at::tensor({0.0F, 1.0F, -1.0F}).unsqueeze(1);
  PackedMicroBatch batch;
  batch.targets = at::tensor(std::vector<std::int64_t>{1, 1});
  batch.target_weights = at::ones({2}, at::kDouble);
  batch.num_targets = 2;
  CrossEntropyHead head(weight, at::zeros_like(weight), 1);
  EXPECT_EQ(head.loss(hidden, batch), 0);
  EXPECT_EQ(head.forward_backward(hidden, batch).loss, 0);
}

}  // namespace
}  // namespace weft
