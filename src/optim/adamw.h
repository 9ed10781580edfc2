// AdamW with decoupled weight decay on flat buffers (Loshchilov, Hutter 2019, algorithm 2).
//
// Invariants: the moments are flat buffers of the parameters' size, order and dtype, so that
// checkpoints and shards are views of them; an update touches each element once and reads no other
// element, so any split of the flat range gives the same bits. A step that is skipped (a non-finite
// gradient, no targets) does not call update(), which leaves parameters, moments, num_updates() and
// with it the learning rate as they were. Letters: P parameters, each once.
#pragma once

#include "model/parameters.h"

namespace weft {

struct AdamWOptions {
  double beta1 = 0.9;   // [0, 1)
  double beta2 = 0.95;  // [0, 1)
  double eps = 1e-8;    // > 0, also when rounded to the parameters' dtype
  double weight_decay =
      0.1;  // >= 0; value -= lr * weight_decay * value, only where ParameterInfo::decays
};

class AdamW {
 public:
  // UserError when an option is outside its range.
  AdamW(const ParameterSet& parameters, const AdamWOptions& options);

  // One update with learning rate `lr` and gradients multiplied by `gradient_scale` (clipping) on
  // the fly:
  //   m = beta1 * m + (1 - beta1) * g,  v = beta2 * v + (1 - beta2) * g^2
  //   value -= lr * (m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay * value)
  // in the parameters' dtype; the factors common to all elements are computed in double. REQUIRES:
  // finite gradients.
  void update(ParameterSet& parameters, double lr, double gradient_scale);

  // Continues after `num_updates` updates; the caller writes the moments through the views below.
  void set_num_updates(std::int64_t num_updates) { num_updates_ = num_updates; }

  std::int64_t num_updates() const { return num_updates_; }           // t; bias correction uses it
  const at::Tensor& first_moments() const { return first_moments_; }  // [P]
  const at::Tensor& second_moments() const { return second_moments_; }  // [P]

 private:
  AdamWOptions options_;
  std::int64_t num_updates_ = 0;
  at::Tensor first_moments_;   // [P]
  at::Tensor second_moments_;  // [P]
};

}  // namespace weft
