#include "tests/support/dense_decoder.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace weft::testing {
namespace {

at::Tensor row_of(const std::vector<std::int64_t>& values) {
  return at::tensor(values, at::TensorOptions().dtype(at::kLong));
}

// x [T, E]
at::Tensor normalise(const at::Tensor& x, const at::Tensor& gain, double eps) {
  return x / at::sqrt(at::pow(x, 2).mean(1, true) + eps) * gain;
}

// The rotation of each pair as a product of complex numbers. x [N, T, D]
at::Tensor turn_by_position(const at::Tensor& x, double theta) {
  const std::int64_t num_rows = x.size(1);
  const std::int64_t half = x.size(2) / 2;
  const at::Tensor exponents = at::arange(half, at::kDouble) / static_cast<double>(half);
  const at::Tensor angles =
      at::outer(at::arange(num_rows, at::kDouble), at::pow(theta, -exponents));
  const at::Tensor turns = at::polar(at::ones_like(angles), angles);  // [T, D/2]
  const auto halves = x.chunk(2, 2);
  const at::Tensor turned = at::complex(halves[0].contiguous(), halves[1].contiguous()) * turns;
  return at::cat({at::real(turned), at::imag(turned)}, 2);
}

// One head under the whole [T, T] mask. q, k, v [T, D]
at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                  const at::Tensor& mask) {
  const at::Tensor scores = at::matmul(q, k.t()) / std::sqrt(static_cast<double>(q.size(1)));
  return at::matmul(at::softmax(scores + mask, 1), v);
}

at::Tensor self_attention(const ModelConfig& config, const NamedTensors& p,
                          const std::string& prefix, const at::Tensor& x) {
  const std::int64_t num_rows = x.size(0);
  const auto heads = [&](const std::string& name, std::int64_t count) {
    const at::Tensor flat = at::linear(x, p.at(prefix + name + ".weight"));
    return flat.reshape({num_rows, count, config.head_dim}).permute({1, 0, 2});  // [N, T, D]
  };
  const at::Tensor q = turn_by_position(heads("q_proj", config.num_heads), config.rope_theta);
  const at::Tensor k = turn_by_position(heads("k_proj", config.num_kv_heads), config.rope_theta);
  const at::Tensor v = heads("v_proj", config.num_kv_heads);
  const at::Tensor mask =
      at::full({num_rows, num_rows}, -std::numeric_limits<double>::infinity(), at::kDouble).triu(1);
  std::vector<at::Tensor> outputs;
  for (std::int64_t head = 0; head < config.num_heads; ++head) {
    const std::int64_t kv_head = head * config.num_kv_heads / config.num_heads;
    outputs.push_back(attend(q[head], k[kv_head], v[kv_head], mask));
  }
  return at::linear(at::cat(outputs, 1), p.at(prefix + "o_proj.weight"));
}

at::Tensor feed_forward(const NamedTensors& p, const std::string& prefix, const at::Tensor& x) {
  const at::Tensor gate = at::linear(x, p.at(prefix + "gate_proj.weight"));
  const at::Tensor up = at::linear(x, p.at(prefix + "up_proj.weight"));
  return at::linear(gate / (1 + at::exp(-gate)) * up, p.at(prefix + "down_proj.weight"));
}

at::Tensor run(const ModelConfig& config, const NamedTensors& p,
               const std::vector<std::int64_t>& tokens) {
  at::Tensor x = at::embedding(p.at("model.embed_tokens.weight"), row_of(tokens));
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    const std::string prefix = "model.layers." + std::to_string(i) + ".";
    const auto norm = [&](const std::string& name) {
      return normalise(x, p.at(prefix + name + ".weight"), config.rms_norm_eps);
    };
    x = x + self_attention(config, p, prefix + "self_attn.", norm("input_layernorm"));
    x = x + feed_forward(p, prefix + "mlp.", norm("post_attention_layernorm"));
  }
  const at::Tensor hidden = normalise(x, p.at("model.norm.weight"), config.rms_norm_eps);
  return at::linear(
      hidden, p.at(config.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight"));
}

NamedTensors in_double(const NamedTensors& parameters, bool requires_grad) {
  NamedTensors result;
  for (const auto& [name, value] : parameters) {
    result[name] = value.detach().to(at::kDouble).clone().requires_grad_(requires_grad);
  }
  return result;
}

}  // namespace

DenseStep dense_step(const ModelConfig& config, const NamedTensors& parameters,
                     const std::vector<DenseSequence>& sequences) {
  const NamedTensors p = in_double(parameters, true);
  DenseStep step;
  for (const DenseSequence& sequence : sequences) {
    std::vector<std::int64_t> rows;
    std::vector<std::int64_t> targets;
    for (std::size_t i = 0; i < sequence.targets.size(); ++i) {
      if (sequence.targets[i] < 0) continue;
      rows.push_back(static_cast<std::int64_t>(i));
      targets.push_back(sequence.targets[i]);
    }
    if (rows.empty()) continue;
    const at::Tensor log_p = at::log_softmax(run(config, p, sequence.tokens), 1);
    const at::Tensor loss =
        -log_p.index({row_of(rows), row_of(targets)}).sum() * sequence.target_weight;
    step.loss += loss.item<double>();
    loss.backward();  // frees this sequence's graph
  }
  for (const auto& [name, value] : p) {
    step.gradients[name] = value.grad().defined() ? value.grad() : at::zeros_like(value).detach();
  }
  return step;
}

at::Tensor dense_logits(const ModelConfig& config, const NamedTensors& parameters,
                        const std::vector<std::int64_t>& tokens) {
  return run(config, in_double(parameters, false), tokens);
}

double gradient_error(const at::Tensor& gradient, const at::Tensor& reference, double global_norm) {
  const at::Tensor wide = reference.to(at::kDouble);
  const double difference = (gradient.to(at::kDouble) - wide).norm().item<double>();
  const double size = std::max(wide.norm().item<double>(), 1e-3 * global_norm);
  return difference == 0 ? 0 : difference / size;
}

double global_norm(const NamedTensors& gradients) {
  double squares = 0;
  for (const auto& [name, gradient] : gradients)
    squares += std::pow(gradient.norm().item<double>(), 2);
  return std::sqrt(squares);
}

}  // namespace weft::testing
