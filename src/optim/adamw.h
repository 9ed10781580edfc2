// AdamW with decoupled weight decay on flat buffers (Loshchilov, Hutter 2019, algorithm 2).
#pragma once

#include "model/parameters.h"

namespace weft {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;  // applied as value -= lr * weight_decay * value, only where ParameterInfo::decays
};

class AdamW {
 public:
  AdamW(const ParameterSet& parameters, const AdamWOptions& options);

  // One update with learning rate `lr` and gradients multiplied by `gradient_scale` (clipping) on the fly.
  void update(ParameterSet& parameters, double lr, double gradient_scale);

  std::int64_t num_updates() const { return num_updates_; }  // bias correction uses it
  const at::Tensor& first_moments() const { return first_moments_; }    // [P]
  const at::Tensor& second_moments() const { return second_moments_; }  // [P]

 private:
  AdamWOptions options_;
  std::int64_t num_updates_ = 0;
  at::Tensor first_moments_;
  at::Tensor second_moments_;
};

}  // namespace weft
