#include "model/cross_entropy.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace weft {
namespace {

// The steps of at::logsumexp, but in the memory of the logits [R, V]; lse [R].
void log_sum_exp_in_place(at::Tensor& logits, at::Tensor& lse) {
  at::Tensor largest = logits.amax({1}, /*keepdim=*/true);  // [R, 1]
  largest.masked_fill_(largest.abs() == std::numeric_limits<double>::infinity(), 0);
  at::sum_out(lse, logits.sub_(largest).exp_(), {1});
  lse.log_().add_(largest.squeeze(1));
}

}  // namespace

at::Tensor CrossEntropyHead::logits(const at::Tensor& hidden) const {
  return at::mm(hidden, weight_.t());
}

double CrossEntropyHead::forward(const at::Tensor& hidden, const PackedMicroBatch& batch,
                                 SavedLoss& saved) const {
  saved.rows = at::nonzero(at::ne(batch.targets, std::int64_t{kNoTarget})).squeeze(1);
  saved.targets = batch.targets.index_select(0, saved.rows);
  const at::Tensor weights = batch.target_weights.index_select(0, saved.rows);  // [R] double
  saved.weights = weights.to(hidden.scalar_type());
  const std::int64_t num_targets = saved.rows.size(0);
  WEFT_CHECK_EQ(num_targets, batch.num_targets, "targets of the micro-batch and their count");
  saved.lse = at::empty({num_targets}, hidden.options());
  double loss = 0;
  for (std::int64_t begin = 0; begin < num_targets; begin += chunk_rows_) {
    const std::int64_t size = std::min(chunk_rows_, num_targets - begin);
    at::Tensor chunk_logits =
        logits(hidden.index_select(0, saved.rows.narrow(0, begin, size)));  // [size, V]
    const at::Tensor picked =
        chunk_logits.gather(1, saved.targets.narrow(0, begin, size).unsqueeze(1)).squeeze(1);
    at::Tensor lse = saved.lse.narrow(0, begin, size);
    log_sum_exp_in_place(chunk_logits, lse);
    const at::Tensor losses = at::sub(lse.to(at::kDouble), picked.to(at::kDouble));
    loss += losses.mul_(weights.narrow(0, begin, size)).sum().item<double>();
  }
  return loss;
}

at::Tensor CrossEntropyHead::backward(const at::Tensor& hidden, const SavedLoss& saved) {
  at::Tensor d_hidden = at::zeros_like(hidden);  // rows without a target get nothing from the head
  const std::int64_t num_targets = saved.rows.size(0);
  for (std::int64_t begin = 0; begin < num_targets; begin += chunk_rows_) {
    const std::int64_t size = std::min(chunk_rows_, num_targets - begin);
    const at::Tensor rows = saved.rows.narrow(0, begin, size);
    const at::Tensor weights = saved.weights.narrow(0, begin, size).unsqueeze(1);  // [size, 1]
    const at::Tensor targets = saved.targets.narrow(0, begin, size).unsqueeze(1);  // [size, 1]
    const at::Tensor chunk_hidden = hidden.index_select(0, rows);                  // [size, E]
    // w * (softmax - one_hot(target)), in the memory of the logits.
    at::Tensor d_logits = logits(chunk_hidden);
    d_logits.sub_(saved.lse.narrow(0, begin, size).unsqueeze(1)).exp_().mul_(weights);
    d_logits.scatter_add_(1, targets, weights.neg());
    gradient_.addmm_(d_logits.t(), chunk_hidden);
    d_hidden.index_copy_(0, rows, at::mm(d_logits, weight_));
  }
  return d_hidden;
}

}  // namespace weft
