#include "bench/autograd_decoder.h"

#include <cmath>
#include <limits>

namespace weft::bench {
namespace {

// x [T, E]
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& gain, double eps) {
  return x * at::rsqrt(x.pow(2).mean(1, true) + eps) * gain;
}

struct Rotation {
  at::Tensor cosine, sine;  // [T, D]
};

Rotation rotation_of(std::int64_t num_rows, std::int64_t head_dim, double theta) {
  const at::Tensor exponents = at::arange(0, head_dim, 2, at::kDouble) / head_dim;
  const at::Tensor angles =
      at::outer(at::arange(num_rows, at::kDouble), at::pow(theta, -exponents));
  const at::Tensor both = at::cat({angles, angles}, 1);
  return {both.cos().to(at::kFloat), both.sin().to(at::kFloat)};
}

// x [N, T, D]
at::Tensor rotate(const at::Tensor& x, const Rotation& rotation) {
  const auto halves = x.chunk(2, 2);
  return x * rotation.cosine + at::cat({-halves[1], halves[0]}, 2) * rotation.sine;
}

}  // namespace

AutogradDecoder::AutogradDecoder(const ModelConfig& config, const ParameterSet& parameters)
    : config_(config) {
  for (std::size_t i = 0; i < parameters.infos().size(); ++i) {
    const ParameterInfo& info = parameters.infos()[i];
    Weight weight;
    weight.value = parameters.value(i).detach().clone();
    weight.first_moment = at::zeros_like(weight.value);
    weight.second_moment = at::zeros_like(weight.value);
    weight.value.requires_grad_(true);
    weight.decay = info.decays ? 0.1 : 0.0;
    weights_.emplace(info.name, std::move(weight));
  }
}

at::Tensor AutogradDecoder::attention(const std::string& prefix, const at::Tensor& x) const {
  const std::int64_t num_rows = x.size(0);
  const auto heads = [&](const std::string& name, std::int64_t count) {
    return at::linear(x, weight(prefix + name + ".weight"))
        .reshape({num_rows, count, config_.head_dim})
        .transpose(0, 1);  // [N, T, D]
  };
  const std::int64_t shared = config_.num_heads / config_.num_kv_heads;
  const Rotation rotation = rotation_of(num_rows, config_.head_dim, config_.rope_theta);
  const at::Tensor q = rotate(heads("q_proj", config_.num_heads), rotation);
  const at::Tensor k =
      rotate(heads("k_proj", config_.num_kv_heads), rotation).repeat_interleave(shared, 0);
  const at::Tensor v = heads("v_proj", config_.num_kv_heads).repeat_interleave(shared, 0);
  const at::Tensor mask = at::ones({num_rows, num_rows}, at::kBool).triu(1);
  at::Tensor scores = at::matmul(q, k.transpose(1, 2));  // [H, T, T]
  scores.mul_(1 / std::sqrt(static_cast<double>(config_.head_dim)));
  scores.masked_fill_(mask, -std::numeric_limits<float>::infinity());
  const at::Tensor out = at::matmul(at::softmax(scores, 2), v);  // [H, T, D]
  return at::linear(out.transpose(0, 1).reshape({num_rows, -1}), weight(prefix + "o_proj.weight"));
}

at::Tensor AutogradDecoder::forward(const at::Tensor& tokens, const at::Tensor& targets) const {
  at::Tensor x = at::embedding(weight("model.embed_tokens.weight"), tokens);  // [T, E]
  for (std::int64_t layer = 0; layer < config_.num_layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    const auto norm = [&](const std::string& name) {
      return rms_norm(x, weight(prefix + name + ".weight"), config_.rms_norm_eps);
    };
    x = x + attention(prefix + "self_attn.", norm("input_layernorm"));
    const at::Tensor inner = norm("post_attention_layernorm");
    const at::Tensor gate = at::silu(at::linear(inner, weight(prefix + "mlp.gate_proj.weight")));
    const at::Tensor up = at::linear(inner, weight(prefix + "mlp.up_proj.weight"));
    x = x + at::linear(gate * up, weight(prefix + "mlp.down_proj.weight"));
  }
  x = rms_norm(x, weight("model.norm.weight"), config_.rms_norm_eps);
  const at::Tensor logits = at::linear(
      x, weight(config_.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight"));
  return at::cross_entropy_loss(logits, targets);
}

double AutogradDecoder::loss_of(const at::Tensor& tokens, const at::Tensor& targets) {
  const at::NoGradGuard no_grad;
  return forward(tokens, targets).item<double>();
}

double AutogradDecoder::step(const at::Tensor& tokens, const at::Tensor& targets, double lr) {
  for (auto& [name, weight] : weights_) {
    if (weight.value.grad().defined()) weight.value.mutable_grad().zero_();
  }
  const at::Tensor loss = forward(tokens, targets);
  loss.backward();
  update(lr);
  return loss.item<double>();
}

void AutogradDecoder::update(double lr) {
  constexpr double kBeta1 = 0.9;
  constexpr double kBeta2 = 0.95;
  const at::NoGradGuard no_grad;
  double squares = 0;
  for (const auto& [name, weight] : weights_)
    squares += std::pow(weight.value.grad().norm().item<double>(), 2);
  const double scale = std::min(1.0, 1.0 / std::sqrt(squares));
  ++num_updates_;
  const double first_correction = 1 - std::pow(kBeta1, num_updates_);
  const double second_correction = 1 - std::pow(kBeta2, num_updates_);
  for (auto& [name, weight] : weights_) {
    const at::Tensor gradient = weight.value.grad().mul_(scale);
    weight.first_moment.lerp_(gradient, 1 - kBeta1);
    weight.second_moment.mul_(kBeta2).addcmul_(gradient, gradient, 1 - kBeta2);
    weight.value.mul_(1 - lr * weight.decay);
    const at::Tensor root = (weight.second_moment / second_correction).sqrt_().add_(1e-8);
    weight.value.addcdiv_(weight.first_moment, root, -lr / first_correction);
  }
}

}  // namespace weft::bench
