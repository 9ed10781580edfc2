// Small decoders for tests, with weights large enough that every part of the model matters to the
// loss, and the plan of one rank that runs everything in one micro-batch.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "attention/attention_layout.h"
#include "base/random.h"
#include "loader/packed_micro_batch.h"
#include "model/decoder.h"
#include "tests/support/dense_decoder.h"
#include "tests/support/memory_source.h"

namespace weft::testing {

inline ModelConfig tiny_config(std::int64_t num_kv_heads, bool tied) {
  return {.vocab_size = 50,
          .hidden_size = 32,
          .num_layers = 2,
          .num_heads = 8,
          .num_kv_heads = num_kv_heads,
          .head_dim = 4,
          .intermediate_size = 40,
          .rope_theta = 10000,
          .rms_norm_eps = 1e-5,
          .tie_word_embeddings = tied};
}

// Values that the dtype float holds exactly, so that float and double models start from the same
// numbers.
inline void randomise(ParameterSet& parameters, std::uint64_t seed) {
  for (std::size_t p = 0; p < parameters.infos().size(); ++p) {
    const ParameterInfo& info = parameters.infos()[p];
    const RandomStream stream(seed, info.name);
    const double centre = info.decays ? 0 : 1;
    at::Tensor values = at::empty(info.shape, at::kDouble);
    for (std::int64_t i = 0; i < info.size; ++i) {
      values.data_ptr<double>()[i] = centre + 0.2 * stream.normal(static_cast<std::uint64_t>(i));
    }
    parameters.value(p).copy_(values.to(at::kFloat));
  }
}

struct TinyModel {
  TinyModel(const ModelConfig& model_config, at::ScalarType dtype,
            std::string_view kernel_name = "reference", Recompute recompute = Recompute::kNone)
      : config(model_config),
        parameters(config, dtype),
        kernel(make_attention_kernel(kernel_name)),
        decoder(config, parameters, *kernel, {.recompute = recompute}) {
    randomise(parameters, 11);
  }

  NamedTensors named_values() const {
    NamedTensors named;
    for (std::size_t i = 0; i < parameters.infos().size(); ++i) {
      named[parameters.infos()[i].name] = parameters.value(i);
    }
    return named;
  }

  // Runs forward and backward of one micro-batch that shares no sequence; returns its share of the
  // loss.
  double run(const PackedMicroBatch& batch, const AttentionLayout& layout) {
    ForwardResult result = decoder.forward(batch, layout, {});
    const double loss = result.loss;
    decoder.backward(std::move(result), batch, layout, {});
    return loss;
  }

  ModelConfig config;
  ParameterSet parameters;
  std::unique_ptr<AttentionKernel> kernel;
  Decoder decoder;
};

// One rank, one micro-batch of whole sequences in canonical order.
struct WholePack {
  explicit WholePack(const MemorySource& source, LossWeighting weighting = LossWeighting::kToken) {
    slice.weighting = weighting;
    slice.sequences = source.specs();
    slice.total_weight = total_weight(slice.sequences, weighting);
    MicroBatch micro_batch;
    for (std::size_t i = 0; i < slice.sequences.size(); ++i) {
      micro_batch.pieces.push_back({.sequence_idx = static_cast<std::int32_t>(i),
                                    .group_idx = kNoGroup,
                                    .range = {0, slice.sequences[i].tokens.value()}});
    }
    slice.micro_batches.push_back(micro_batch);
    layout = make_attention_layout(slice, micro_batch);
    batch = pack_micro_batch(slice, micro_batch, source);
  }

  PlanSlice slice;
  AttentionLayout layout;
  PackedMicroBatch batch;
};

// The same step for the oracle.
inline std::vector<DenseSequence> dense_sequences(const MemorySource& source,
                                                  LossWeighting weighting) {
  const std::vector<SequenceSpec> specs = source.specs();
  const auto total = static_cast<double>(total_weight(specs, weighting));
  std::vector<DenseSequence> sequences;
  for (const SequenceSpec& spec : specs) {
    const MemorySource::Document& document = source.at(spec.id);
    double weight = 0;
    if (spec.num_targets > 0) {
      const bool by_token = weighting == LossWeighting::kToken;
      weight = (by_token ? 1.0 : 1.0 / static_cast<double>(spec.num_targets)) / total;
    }
    sequences.push_back({.tokens = {document.tokens.begin(), document.tokens.end()},
                         .targets = {document.targets.begin(), document.targets.end()},
                         .target_weight = weight});
  }
  return sequences;
}

// The bars of exactness: error of the loss (relative) and of each parameter's gradient.
inline double tolerance(at::ScalarType dtype) { return dtype == at::kDouble ? 1e-9 : 2e-5; }

}  // namespace weft::testing
