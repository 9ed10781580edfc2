// The oracle of the data plane: a Llama-family decoder written apart from src/model, on libtorch's
// autograd.
//
// One rank, float64, each sequence on its own, plain dense attention under an explicit mask. Slow
// and obvious. It shares with src/model only the configuration and the names of parameters.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/model_config.h"
#include "tensor/tensor.h"

namespace weft::testing {

using NamedTensors = std::map<std::string, at::Tensor>;

struct DenseSequence {
  std::vector<std::int64_t> tokens;
  std::vector<std::int64_t> targets;  // same length; negative: no target
  double target_weight = 0;           // w_t / W of each of its targets
};

struct DenseStep {
  double loss = 0;
  NamedTensors gradients;  // of every parameter; zeros where nothing reached it
};

// Loss and gradients of a whole step. `parameters` by Hugging Face name, any float dtype.
DenseStep dense_step(const ModelConfig& config, const NamedTensors& parameters,
                     const std::vector<DenseSequence>& sequences);

// [T, V] of one sequence.
at::Tensor dense_logits(const ModelConfig& config, const NamedTensors& parameters,
                        const std::vector<std::int64_t>& tokens);

// ||gradient - reference|| / max(||reference||, 1e-3 * global_norm), in double.
double gradient_error(const at::Tensor& gradient, const at::Tensor& reference, double global_norm);
double global_norm(const NamedTensors& gradients);

}  // namespace weft::testing
