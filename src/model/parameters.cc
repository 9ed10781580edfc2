#include "model/parameters.h"

#include <ATen/Dispatch.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/random.h"

namespace weft {
namespace {

class Listing {
 public:
  void add(std::string name, std::vector<std::int64_t> shape) {
    std::int64_t size = 1;
    for (const std::int64_t extent : shape) size *= extent;
    const bool decays = shape.size() > 1;
    infos_.push_back({std::move(name), std::move(shape), offset_, size, decays});
    offset_ += size;
  }
  std::vector<ParameterInfo> take() { return std::move(infos_); }

 private:
  std::vector<ParameterInfo> infos_;
  std::int64_t offset_ = 0;
};

std::vector<ParameterInfo> list_parameters(const ModelConfig& config) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t q_size = config.num_heads * config.head_dim;
  const std::int64_t kv_size = config.num_kv_heads * config.head_dim;
  Listing listing;
  listing.add("model.embed_tokens.weight", {config.vocab_size, hidden});
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    listing.add(prefix + "input_layernorm.weight", {hidden});
    listing.add(prefix + "self_attn.q_proj.weight", {q_size, hidden});
    listing.add(prefix + "self_attn.k_proj.weight", {kv_size, hidden});
    listing.add(prefix + "self_attn.v_proj.weight", {kv_size, hidden});
    listing.add(prefix + "self_attn.o_proj.weight", {hidden, q_size});
    listing.add(prefix + "post_attention_layernorm.weight", {hidden});
    listing.add(prefix + "mlp.gate_proj.weight", {config.intermediate_size, hidden});
    listing.add(prefix + "mlp.up_proj.weight", {config.intermediate_size, hidden});
    listing.add(prefix + "mlp.down_proj.weight", {hidden, config.intermediate_size});
  }
  listing.add("model.norm.weight", {hidden});
  if (!config.tie_word_embeddings) listing.add("lm_head.weight", {config.vocab_size, hidden});
  return listing.take();
}

bool writes_to_residual(std::string_view name) {
  return name.ends_with("self_attn.o_proj.weight") || name.ends_with("mlp.down_proj.weight");
}

}  // namespace

ParameterSet::ParameterSet(const ModelConfig& config, at::ScalarType dtype)
    : num_layers_(config.num_layers) {
  check_model_config(config);
  infos_ = list_parameters(config);
  const std::int64_t size = infos_.back().offset + infos_.back().size;
  WEFT_CHECK_EQ(size, num_parameters(config), "the list of parameters and their count disagree");
  values_ = at::zeros({size}, dtype);
  gradients_ = at::zeros({size}, dtype);
}

std::size_t ParameterSet::index_of(std::string_view name) const {
  const auto found = std::find_if(infos_.begin(), infos_.end(),
                                  [&](const ParameterInfo& info) { return info.name == name; });
  WEFT_CHECK(found != infos_.end(), "no parameter is called {}", name);
  return static_cast<std::size_t>(found - infos_.begin());
}

at::Tensor ParameterSet::value(std::size_t index) const {
  const ParameterInfo& info = infos_.at(index);
  return values_.narrow(0, info.offset, info.size).view(info.shape);
}

at::Tensor ParameterSet::gradient(std::size_t index) const {
  const ParameterInfo& info = infos_.at(index);
  return gradients_.narrow(0, info.offset, info.size).view(info.shape);
}

at::Tensor ParameterSet::stacked_value(std::size_t index, std::size_t count) const {
  return stacked(values_, index, count);
}

at::Tensor ParameterSet::stacked_gradient(std::size_t index, std::size_t count) const {
  return stacked(gradients_, index, count);
}

at::Tensor ParameterSet::stacked(const at::Tensor& flat, std::size_t index,
                                 std::size_t count) const {
  const ParameterInfo& first = infos_.at(index);
  std::int64_t size = 0;
  for (std::size_t i = index; i < index + count; ++i) {
    const ParameterInfo& info = infos_.at(i);
    WEFT_CHECK(info.shape.size() == 2 && info.shape.back() == first.shape.back(),
               "{} cannot be stacked below {}: shapes [{}] and [{}]", info.name, first.name,
               fmt::join(info.shape, ", "), fmt::join(first.shape, ", "));
    size += info.size;
  }
  return flat.narrow(0, first.offset, size).view({-1, first.shape.back()});
}

void ParameterSet::zero_gradients() { gradients_.zero_(); }

void ParameterSet::initialize(std::uint64_t seed) {
  constexpr double kStd = 0.02;
  const double residual_std = kStd / std::sqrt(2.0 * static_cast<double>(num_layers_));
  AT_DISPATCH_FLOATING_TYPES(values_.scalar_type(), "initialize", [&] {
    for (const ParameterInfo& info : infos_) {
      const std::span<scalar_t> values(values_.data_ptr<scalar_t>() + info.offset,
                                       static_cast<std::size_t>(info.size));
      if (info.shape.size() == 1) {  // gain of a norm
        std::fill(values.begin(), values.end(), scalar_t{1});
        continue;
      }
      const double std = writes_to_residual(info.name) ? residual_std : kStd;
      const RandomStream stream(seed, info.name);
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<scalar_t>(std * stream.normal(i));
      }
    }
  });
}

}  // namespace weft
