// The yardstick beside Weft's step: the same decoder as people write it with libtorch, on its
// autograd. One sequence, dense masked attention over all heads at once, AdamW from tensor
// operations.
#pragma once

#include <map>
#include <string>

#include "model/parameters.h"

namespace weft::bench {

class AutogradDecoder {
 public:
  // Starts from copies of the values of `parameters`.
  AutogradDecoder(const ModelConfig& config, const ParameterSet& parameters);

  // Mean loss over the targets, before the update. tokens, targets [T] int64, every row has a
  // target.
  double loss_of(const at::Tensor& tokens, const at::Tensor& targets);
  // Forward, backward, clipping by the global norm 1, AdamW.
  double step(const at::Tensor& tokens, const at::Tensor& targets, double lr);

 private:
  struct Weight {
    at::Tensor value;
    at::Tensor first_moment, second_moment;
    double decay = 0;
  };
  const at::Tensor& weight(const std::string& name) const { return weights_.at(name).value; }
  at::Tensor attention(const std::string& prefix, const at::Tensor& x) const;
  at::Tensor forward(const at::Tensor& tokens, const at::Tensor& targets) const;
  void update(double lr);

  ModelConfig config_;
  std::map<std::string, Weight> weights_;
  std::int64_t num_updates_ = 0;
};

}  // namespace weft::bench
