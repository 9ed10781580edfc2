// ParameterSet: every parameter has a name, a shape and a place in one flat buffer; gradients live
// in a second flat buffer of the same order. Buckets, norms, shards and checkpoints are views of
// these two.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/model_config.h"
#include "tensor/tensor.h"

namespace weft {

struct ParameterInfo {
  std::string name;  // Hugging Face name, e.g. "model.layers.0.self_attn.q_proj.weight"
  std::vector<std::int64_t> shape;
  std::int64_t offset = 0;  // element offset in the flat buffers
  std::int64_t size = 0;    // elements
  bool decays = true;       // weight decay applies (matrices yes, norm gains no)
};

class ParameterSet {
 public:
  // Parameters of the decoder in execution order. A tied head is one parameter,
  // "model.embed_tokens.weight".
  ParameterSet(const ModelConfig& config, at::ScalarType dtype);

  const std::vector<ParameterInfo>& infos() const { return infos_; }
  std::size_t index_of(std::string_view name) const;  // InternalError when absent
  at::Tensor value(std::size_t index) const;          // view with the parameter's shape
  at::Tensor gradient(std::size_t index) const;       // view, same shape
  // `count` neighbours from `index` on, matrices of as many columns, as one matrix: their rows
  // below each other. InternalError when they are not that.
  at::Tensor stacked_value(std::size_t index, std::size_t count) const;
  at::Tensor stacked_gradient(std::size_t index, std::size_t count) const;
  const at::Tensor& flat_values() const { return values_; }        // [P]
  const at::Tensor& flat_gradients() const { return gradients_; }  // [P]
  std::int64_t size() const { return values_.numel(); }            // P, each element once
  void zero_gradients();

  // Element i of a parameter is f(seed, name, i): normal(0, std) for matrices, 1 for norm gains.
  // std = 0.02, and 0.02 / sqrt(2 * layers) for the two projections that write to the residual
  // stream.
  void initialize(std::uint64_t seed);

 private:
  at::Tensor stacked(const at::Tensor& flat, std::size_t index, std::size_t count) const;

  std::vector<ParameterInfo> infos_;
  at::Tensor values_;     // [P]
  at::Tensor gradients_;  // [P]
  std::int64_t num_layers_ = 0;
};

}  // namespace weft
