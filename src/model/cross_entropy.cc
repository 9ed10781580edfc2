#include "model/cross_entropy.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "model/softmax_rows.h"

namespace weft {
namespace {

// A thread's share of the softmax is at least about this many logits.
constexpr std::int64_t kLogitsPerThread = 1 << 16;

// The rows that have a target.
struct TargetRows {
  at::Tensor rows;     // [R] int64, ascending
  at::Tensor targets;  // [R] int64
  at::Tensor weights;  // [R] double, w_t / W
};

TargetRows target_rows(const PackedMicroBatch& batch) {
  TargetRows found;
  found.rows = at::nonzero(at::ne(batch.targets, std::int64_t{kNoTarget})).squeeze(1);
  found.targets = batch.targets.index_select(0, found.rows);
  found.weights = batch.target_weights.index_select(0, found.rows);
  WEFT_CHECK_EQ(found.rows.size(0), batch.num_targets,
                "targets of the micro-batch and their count");
  return found;
}

enum class Wanted { kLoss, kGradients };

// The loss of a chunk of logits [R, V]; for gradients, they become d_logits.
template <class T>
double run_softmax(Wanted wanted, at::Tensor& logits, const TargetRows& targets,
                   std::int64_t begin) {
  const std::int64_t num_rows = logits.size(0), vocab_size = logits.size(1);
  std::vector<double> losses(static_cast<std::size_t>(num_rows));
  const std::int64_t grain = std::max<std::int64_t>(1, kLogitsPerThread / vocab_size);
  at::parallel_for(0, num_rows, grain, [&](std::int64_t first, std::int64_t last) {
    const SoftmaxRows<T> share{.logits = logits.data_ptr<T>() + first * vocab_size,
                               .targets = targets.targets.data_ptr<std::int64_t>() + begin + first,
                               .weights = targets.weights.data_ptr<double>() + begin + first,
                               .losses = losses.data() + first,
                               .num_rows = last - first,
                               .vocab_size = vocab_size};
    if (wanted == Wanted::kGradients) {
      softmax_gradients(share);
    } else {
      softmax_losses(share);
    }
  });
  return std::accumulate(losses.begin(), losses.end(), 0.0);
}

double softmax(Wanted wanted, at::Tensor& logits, const TargetRows& targets, std::int64_t begin) {
  if (logits.scalar_type() == at::kDouble) {
    return run_softmax<double>(wanted, logits, targets, begin);
  }
  return run_softmax<float>(wanted, logits, targets, begin);
}

}  // namespace

OperationScope CrossEntropyHead::product(std::int64_t num_rows, std::string_view pass) const {
  return {{trace_, "head"}, OperationKind::kProduct, pass, 2 * num_rows * weight_.numel()};
}

OperationScope CrossEntropyHead::softmax_scope() const {
  return {{trace_, "softmax"}, OperationKind::kLoss};
}

at::Tensor CrossEntropyHead::logits(const at::Tensor& hidden) const {
  const OperationScope scope = product(hidden.size(0), "forward");
  return at::mm(hidden, weight_.t());
}

double CrossEntropyHead::loss(const at::Tensor& hidden, const PackedMicroBatch& batch) const {
  const TargetRows targets = target_rows(batch);
  double loss = 0;
  for (std::int64_t begin = 0; begin < batch.num_targets; begin += chunk_rows_) {
    const std::int64_t size = std::min(chunk_rows_, batch.num_targets - begin);
    at::Tensor chunk_logits =
        logits(hidden.index_select(0, targets.rows.narrow(0, begin, size)));  // [size, V]
    const OperationScope scope = softmax_scope();
    loss += softmax(Wanted::kLoss, chunk_logits, targets, begin);
  }
  return loss;
}

HeadResult CrossEntropyHead::forward_backward(const at::Tensor& hidden,
                                              const PackedMicroBatch& batch) {
  const TargetRows targets = target_rows(batch);
  // Rows without a target get nothing from the head.
  HeadResult result{.loss = 0, .d_hidden = at::zeros_like(hidden)};
  for (std::int64_t begin = 0; begin < batch.num_targets; begin += chunk_rows_) {
    const std::int64_t size = std::min(chunk_rows_, batch.num_targets - begin);
    const at::Tensor rows = targets.rows.narrow(0, begin, size);
    const at::Tensor chunk_hidden = hidden.index_select(0, rows);  // [size, E]
    at::Tensor d_logits = logits(chunk_hidden);                    // [size, V]
    {
      const OperationScope scope = softmax_scope();
      result.loss += softmax(Wanted::kGradients, d_logits, targets, begin);
    }
    {
      const OperationScope scope = product(size, "backward_weight");
      gradient_.addmm_(d_logits.t(), chunk_hidden);
    }
    const OperationScope scope = product(size, "backward_input");
    result.d_hidden.index_copy_(0, rows, at::mm(d_logits, weight_));
  }
  return result;
}

}  // namespace weft
