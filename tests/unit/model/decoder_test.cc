// The whole decoder on one rank against the oracle of tests/support/dense_decoder.h, and what it
// must not do.
#include "model/decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "memory/counting_allocator.h"
#include "tests/support/tiny_model.h"

namespace weft {
namespace {

using testing::dense_sequences;
using testing::dense_step;
using testing::DenseStep;
using testing::global_norm;
using testing::gradient_error;
using testing::MemorySource;
using testing::tiny_config;
using testing::TinyModel;
using testing::tolerance;
using testing::WholePack;

MemorySource random_source(const std::vector<std::int64_t>& lengths, std::int64_t vocab = 50) {
  MemorySource source;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const auto id = static_cast<std::int64_t>(i);
    source.add(id, MemorySource::random_document(21, id, lengths[i], vocab));
  }
  return source;
}

void expect_step(const TinyModel& model, double loss, const DenseStep& reference) {
  const double bound = tolerance(model.parameters.flat_values().scalar_type());
  EXPECT_LE(std::abs(loss - reference.loss), bound * std::abs(reference.loss));
  const double norm = global_norm(reference.gradients);
  for (std::size_t i = 0; i < model.parameters.infos().size(); ++i) {
    const std::string& name = model.parameters.infos()[i].name;
    EXPECT_LE(gradient_error(model.parameters.gradient(i), reference.gradients.at(name), norm),
              bound)
        << name;
  }
}

struct Case {
  std::int64_t num_kv_heads;
  bool tied;
  at::ScalarType dtype;
  const char* kernel;
  friend void PrintTo(const Case& shape, std::ostream* out) {
    *out << shape.num_kv_heads << " key/value heads, " << (shape.tied ? "tied" : "untied") << ", "
         << shape.dtype << ", " << shape.kernel;
  }
};

class DecoderShapes : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Shapes, DecoderShapes,
                         ::testing::Values(Case{8, true, at::kDouble, "reference"},
                                           Case{8, false, at::kFloat, "blocked"},
                                           Case{2, true, at::kFloat, "reference"},
                                           Case{2, false, at::kDouble, "blocked"},
                                           Case{1, true, at::kFloat, "blocked"},
                                           Case{1, false, at::kDouble, "reference"},
                                           Case{1, false, at::kFloat, "reference"}));

TEST_P(DecoderShapes, LossAndEveryGradientOfAPackEqualTheDenseReference) {
  const Case shape = GetParam();
  const MemorySource source = random_source({1, 2, 3, 17, 1, 40, 2, 129});
  for (const LossWeighting weighting : {LossWeighting::kToken, LossWeighting::kSample}) {
    TinyModel model(tiny_config(shape.num_kv_heads, shape.tied), shape.dtype, shape.kernel);
    const WholePack pack(source, weighting);
    const double loss = model.run(pack.batch, pack.layout);
    expect_step(model, loss,
                dense_step(model.config, model.named_values(), dense_sequences(source, weighting)));
  }
}

TEST_P(DecoderShapes, LogitsOfEachSequenceEqualTheDenseReference) {
  const Case shape = GetParam();
  const MemorySource source = random_source({5, 30, 1});
  const TinyModel model(tiny_config(shape.num_kv_heads, shape.tied), shape.dtype, shape.kernel);
  const WholePack pack(source);
  const at::Tensor logits = model.decoder.logits(pack.batch, pack.layout, {});
  std::int64_t row = 0;
  for (const SequenceSpec& spec : pack.slice.sequences) {
    const MemorySource::Document& document = source.at(spec.id);
    const at::Tensor reference = testing::dense_logits(
        model.config, model.named_values(), {document.tokens.begin(), document.tokens.end()});
    const at::Tensor rows = logits.narrow(0, row, spec.tokens.value());
    EXPECT_LE(gradient_error(rows, reference, 0), tolerance(shape.dtype)) << spec.id;
    row += spec.tokens.value();
  }
}

TEST(Decoder, GradientsMatchCentralDifferencesOfTheLoss) {
  const MemorySource source = random_source({9, 4});
  TinyModel model(tiny_config(2, true), at::kDouble);
  const WholePack pack(source);
  model.run(pack.batch, pack.layout);
  const at::Tensor& flat = model.parameters.flat_values();
  constexpr double kStep = 1e-5;
  for (const ParameterInfo& info : model.parameters.infos()) {
    for (std::int64_t i = 0; i < info.size; i += info.size / 3 + 1) {
      double& element = flat.data_ptr<double>()[info.offset + i];
      const double centre = element;
      element = centre + kStep;
      const double above = model.decoder.loss(pack.batch, pack.layout, {});
      element = centre - kStep;
      const double below = model.decoder.loss(pack.batch, pack.layout, {});
      element = centre;
      const double gradient = model.parameters.flat_gradients()[info.offset + i].item<double>();
      EXPECT_NEAR(gradient, (above - below) / (2 * kStep), 2e-8) << info.name << " element " << i;
    }
  }
}

TEST(Decoder, C002MicroBatchesSumToTheSameStepHoweverTheyAreCut) {
  const MemorySource source = random_source({31, 30, 12, 9, 5, 3, 2, 2});
  const WholePack whole(source);
  TinyModel reference(tiny_config(2, true), at::kDouble);
  const double loss = reference.run(whole.batch, whole.layout);
  for (const std::size_t per_micro_batch : {1, 2, 4}) {
    TinyModel model(tiny_config(2, true), at::kDouble);
    const std::vector<Piece>& pieces = whole.slice.micro_batches[0].pieces;
    double sum = 0;
    for (std::size_t begin = 0; begin < pieces.size(); begin += per_micro_batch) {
      const auto first = pieces.begin() + static_cast<std::ptrdiff_t>(begin);
      const MicroBatch part{
          .pieces = {first, first + static_cast<std::ptrdiff_t>(per_micro_batch)}};
      sum += model.run(pack_micro_batch(whole.slice, part, source),
                       make_attention_layout(whole.slice, part));
    }
    EXPECT_NEAR(sum, loss, 1e-12);
    EXPECT_LE(
        gradient_error(model.parameters.flat_gradients(), reference.parameters.flat_gradients(), 0),
        1e-12);
  }
}

TEST(Decoder, C013DocumentsOfAPackLoseWhatTheyLoseAlone) {
  const auto loss_of = [](const std::vector<std::vector<TokenId>>& documents, double num_targets) {
    MemorySource source;
    for (const auto& tokens : documents) {
      source.add(static_cast<std::int64_t>(tokens.size()), MemorySource::document(tokens));
    }
    const TinyModel model(tiny_config(2, true), at::kDouble);
    const WholePack pack(source);
    return model.decoder.loss(pack.batch, pack.layout, {}) * num_targets;
  };
  const std::vector<TokenId> a = {1, 2, 3};
  const std::vector<TokenId> b = {4, 5, 6, 7, 8};
  EXPECT_NEAR(loss_of({a}, 2) + loss_of({b}, 4), loss_of({a, b}, 6), 1e-12);
}

// B's logits and the gradients of B's words (disjoint from A's) with A made of words 0-19, from
// `seed`.
at::Tensor bits_of_b(at::ScalarType dtype, const char* kernel, std::uint64_t seed,
                     std::int64_t length_a) {
  MemorySource source;
  source.add(0, MemorySource::random_document(seed, 0, length_a, 20));
  source.add(1, MemorySource::random_document(99, 1, 50, 30, 20));
  TinyModel model(tiny_config(2, false), dtype, kernel);
  const WholePack pack(source);
  const std::int64_t row = length_a > 50 ? length_a : 0;  // canonical order: longest first
  const at::Tensor logits = model.decoder.logits(pack.batch, pack.layout, {}).narrow(0, row, 50);
  model.run(pack.batch, pack.layout);
  const std::size_t embedding = model.parameters.index_of("model.embed_tokens.weight");
  return at::cat(
      {logits.flatten(), model.parameters.gradient(embedding).narrow(0, 20, 30).flatten()});
}

TEST(Decoder, C014OtherTokensInDocumentADoNotChangeDocumentBByOneBit) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    for (const char* kernel : {"reference", "blocked"}) {
      for (const std::int64_t length_a : {1, 49, 51, 300}) {
        const at::Tensor first = bits_of_b(dtype, kernel, 1, length_a);
        EXPECT_TRUE(first.equal(bits_of_b(dtype, kernel, 2, length_a)))
            << kernel << " length " << length_a;
        EXPECT_GT(first.abs().sum().item<double>(), 0);
      }
    }
  }
}

TEST(Decoder, C023ATiedHeadGetsTheSumOfBothUses) {
  const MemorySource source = random_source({20, 7});
  const WholePack pack(source);
  TinyModel tied(tiny_config(2, true), at::kDouble);
  TinyModel untied(tiny_config(2, false), at::kDouble);
  const std::size_t head = untied.parameters.index_of("lm_head.weight");
  untied.parameters.value(head).copy_(tied.parameters.value(0));
  EXPECT_EQ(tied.run(pack.batch, pack.layout), untied.run(pack.batch, pack.layout));
  const at::Tensor both = untied.parameters.gradient(0) + untied.parameters.gradient(head);
  EXPECT_LE(gradient_error(tied.parameters.gradient(0), both, 0), 1e-14);
  EXPECT_EQ(tied.parameters.size() + 50 * 32, untied.parameters.size());
}

TEST(Decoder, C028WeightingIsTheSameAloneAndPacked) {
  MemorySource both;
  both.add(0, MemorySource::random_document(1, 0, 2, 50));
  both.add(1, MemorySource::random_document(1, 1, 100, 50));
  const TinyModel model(tiny_config(2, true), at::kDouble);
  const auto loss_of = [&](const MemorySource& source, LossWeighting weighting) {
    const WholePack pack(source, weighting);
    return model.decoder.loss(pack.batch, pack.layout, {});
  };
  const auto alone = [&](std::int64_t id) {
    MemorySource source;
    source.add(id, both.at(id));
    return loss_of(source, LossWeighting::kToken);
  };
  EXPECT_NEAR(loss_of(both, LossWeighting::kToken), (alone(0) + 99 * alone(1)) / 100, 1e-12);
  EXPECT_NEAR(loss_of(both, LossWeighting::kSample), (alone(0) + alone(1)) / 2, 1e-12);
}

TEST(Decoder, AMicroBatchWithoutTargetsOrWithoutRowsIsLegalAndAddsNothing) {
  MemorySource source;
  source.add(0, MemorySource::masked(MemorySource::random_document(1, 0, 12, 50), {0, 0}));
  for (const bool empty : {false, true}) {
    TinyModel model(tiny_config(2, true), at::kFloat);
    const WholePack pack(empty ? MemorySource() : source);
    EXPECT_EQ(model.run(pack.batch, pack.layout), 0);
    EXPECT_EQ(model.parameters.flat_gradients().abs().sum().item<double>(), 0);
    EXPECT_EQ(model.decoder.logits(pack.batch, pack.layout, {}).size(0), empty ? 0 : 12);
  }
}

TEST(Decoder, ATokenOutsideTheVocabularyIsAClearError) {
  MemorySource source;
  source.add(0, MemorySource::document({1, 2, 50}));
  TinyModel model(tiny_config(2, true), at::kFloat);
  const WholePack pack(source);
  try {
    model.decoder.forward(pack.batch, pack.layout, {});
    FAIL() << "accepted a token outside the vocabulary";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(),
                ::testing::HasSubstr("token 50 does not exist in a vocabulary of 50"));
  }
}

TEST(Decoder, BackwardRunsOncePerForward) {
  const MemorySource source = random_source({4});
  TinyModel model(tiny_config(2, true), at::kFloat);
  const WholePack pack(source);
  ForwardResult result = model.decoder.forward(pack.batch, pack.layout, {});
  model.decoder.backward(std::move(result), pack.batch, pack.layout, {});
  EXPECT_THROW(model.decoder.backward(std::move(result), pack.batch, pack.layout, {}),
               InternalError);
}

TEST(Decoder, LogitsOfALargeVocabularyNeverExistForAllRowsAndNothingStaysAfterBackward) {
  install_counting_allocator();
  ModelConfig config = tiny_config(1, true);
  config.vocab_size = 4000;
  config.num_layers = 1;
  const MemorySource source = random_source({2500, 2500, 2500}, 4000);
  TinyModel model(config, at::kFloat, "blocked");
  const WholePack pack(source);
  const Bytes all_logits(7500 * 4000 * 4);
  AllocationCounter counter;
  const AllocationScope scope(counter);
  model.run(pack.batch, pack.layout);
  EXPECT_LT(counter.peak(), all_logits / 2);
  EXPECT_EQ(counter.live(), 0_B);
}

TEST(Decoder, BackwardFreesWhatForwardSavedLayerByLayer) {
  install_counting_allocator();
  const auto peak_of_backward_above_forward = [](std::int64_t num_layers) {
    ModelConfig config = tiny_config(8, true);
    config.num_layers = num_layers;
    const MemorySource source = random_source({200});
    TinyModel model(config, at::kFloat);
    const WholePack pack(source);
    AllocationCounter counter;
    const AllocationScope scope(counter);
    ForwardResult result = model.decoder.forward(pack.batch, pack.layout, {});
    const Bytes saved = counter.live();
    counter.reset_peak();
    model.decoder.backward(std::move(result), pack.batch, pack.layout, {});
    return counter.peak() - saved;
  };
  // The most is needed while the first layer of backward runs; with more layers it is the same.
  EXPECT_EQ(peak_of_backward_above_forward(2), peak_of_backward_above_forward(12));
}

// Bar of memory: bytes between forward and backward are what the formula says.
TEST(Decoder, WhatEachRecomputeModeKeepsIsWhatTheFormulaSays) {
  install_counting_allocator();
  constexpr std::int64_t kTokens = 200;
  const auto saved_bytes = [](std::int64_t num_layers, Recompute recompute) {
    ModelConfig config = tiny_config(2, true);
    config.num_layers = num_layers;
    const MemorySource source = random_source({kTokens - 70, 69, 1});
    TinyModel model(config, at::kFloat, "blocked", recompute);
    const WholePack pack(source);
    AllocationCounter counter;
    const AllocationScope scope(counter);
    const ForwardResult result = model.decoder.forward(pack.batch, pack.layout, {});
    return counter.live().value();
  };
  const ModelConfig config = tiny_config(2, true);
  const LayerSizes sizes = layer_sizes(config);
  for (const Recompute recompute : {Recompute::kNone, Recompute::kAttention, Recompute::kFull}) {
    // Of layers alone: what stands above them cancels.
    EXPECT_EQ(saved_bytes(9, recompute) - saved_bytes(2, recompute),
              7 * kTokens * 4 * saved_elements_per_token(sizes, recompute))
        << static_cast<int>(recompute);
  }
}

}  // namespace
}  // namespace weft
