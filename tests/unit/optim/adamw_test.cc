#include "optim/adamw.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "comm/thread/thread_world.h"
#include "optim/gradient_reduction.h"
#include "optim/lr_schedule.h"

namespace weft {
namespace {

constexpr std::uint64_t kSeed = 41;

ModelConfig tiny_model(bool tied) {
  return {.vocab_size = 7,
          .hidden_size = 6,
          .num_layers = 1,
          .num_heads = 2,
          .num_kv_heads = 1,
          .head_dim = 4,
          .intermediate_size = 5,
          .rope_theta = 10000,
          .rms_norm_eps = 1e-5,
          .tie_word_embeddings = tied};
}

void fill_gradients(ParameterSet& parameters, std::uint64_t seed, std::int64_t step) {
  const RandomStream random(seed, fmt::format("gradients of step {}", step));
  for (std::int64_t i = 0; i < parameters.size(); ++i) {
    parameters.flat_gradients()[i] = random.normal(static_cast<std::uint64_t>(i));
  }
}

std::vector<double> doubles(const at::Tensor& flat) {
  const at::Tensor wide = flat.to(at::kDouble).contiguous();
  return {wide.data_ptr<double>(), wide.data_ptr<double>() + wide.numel()};
}

bool same_bits(const at::Tensor& left, const at::Tensor& right) { return at::equal(left, right); }

// The paper's algorithm 2 for one number, as it is written there: both moments corrected, then the
// update.
struct ScalarAdamW {
  double value = 0, m = 0, v = 0;
  void update(double g, std::int64_t t, double lr, double decay, const AdamWOptions& options) {
    m = options.beta1 * m + (1 - options.beta1) * g;
    v = options.beta2 * v + (1 - options.beta2) * g * g;
    const double m_hat = m / (1 - std::pow(options.beta1, static_cast<double>(t)));
    const double v_hat = v / (1 - std::pow(options.beta2, static_cast<double>(t)));
    value = value - lr * (m_hat / (std::sqrt(v_hat) + options.eps) + decay * value);
  }
};

TEST(AdamW, TwoUpdatesGiveTheNumbersWorkedOutByHand) {
  ParameterSet parameters(tiny_model(true), at::kDouble);
  AdamW optimizer(parameters, {.beta1 = 0.9, .beta2 = 0.95, .eps = 0.25, .weight_decay = 0.5});
  const std::size_t matrix = parameters.index_of("model.layers.0.mlp.up_proj.weight");
  const std::size_t gain = parameters.index_of("model.norm.weight");
  const auto at_start = [&](const at::Tensor& flat, std::size_t index) {
    return flat[parameters.infos()[index].offset].item<double>();
  };
  parameters.flat_values().fill_(1.0);
  parameters.flat_gradients().fill_(4.0);
  optimizer.update(parameters, 0.1, 0.5);
  // g = 2, m = 0.2, v = 0.2, corrected 2 and 4: direction 2 / (2 + 0.25) = 0.888...
  EXPECT_NEAR(at_start(optimizer.first_moments(), matrix), 0.2, 1e-15);
  EXPECT_NEAR(at_start(optimizer.second_moments(), matrix), 0.2, 1e-15);
  EXPECT_NEAR(at_start(parameters.flat_values(), matrix), 1 - 0.1 * (8.0 / 9 + 0.5), 1e-15);
  EXPECT_NEAR(at_start(parameters.flat_values(), gain), 1 - 0.1 * 8.0 / 9, 1e-15);
  EXPECT_EQ(optimizer.num_updates(), 1);

  parameters.flat_values().fill_(1.0);
  parameters.flat_gradients().fill_(-1.0);
  optimizer.update(parameters, 0.1, 1.0);
  // g = -1, m = 0.08, v = 0.24, corrected by 0.19 and 0.0975: 0.421052631578947 /
  // (1.568929081105472 + 0.25).
  EXPECT_NEAR(at_start(optimizer.first_moments(), matrix), 0.08, 1e-15);
  EXPECT_NEAR(at_start(optimizer.second_moments(), matrix), 0.24, 1e-15);
  EXPECT_NEAR(at_start(parameters.flat_values(), gain), 1 - 0.1 * 0.231483808771174, 1e-15);
  EXPECT_NEAR(at_start(parameters.flat_values(), matrix), 1 - 0.1 * 0.731483808771174, 1e-15);
  EXPECT_EQ(optimizer.num_updates(), 2);
}

TEST(AdamW, FollowsTheScalarAlgorithmForManyUpdates) {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
    for (const bool tied : {true, false}) {
      const double tolerance = dtype == at::kDouble ? 1e-13 : 2e-5;
      const AdamWOptions options = {.beta1 = 0.8, .beta2 = 0.97, .eps = 1e-6, .weight_decay = 0.3};
      ParameterSet parameters(tiny_model(tied), dtype);
      parameters.initialize(kSeed);
      std::vector<ScalarAdamW> reference;
      for (const double value : doubles(parameters.flat_values()))
        reference.push_back({.value = value, .m = 0, .v = 0});
      AdamW optimizer(parameters, options);
      for (std::int64_t t = 1; t <= 30; ++t) {
        fill_gradients(parameters, kSeed, t);
        const double lr = 0.01 / static_cast<double>(t);
        const double scale = t % 3 == 0 ? 0.5 : 1.0;
        const auto gradients = doubles(parameters.flat_gradients());
        optimizer.update(parameters, lr, scale);
        for (const ParameterInfo& info : parameters.infos()) {
          for (std::int64_t i = info.offset; i < info.offset + info.size; ++i) {
            const auto at = static_cast<std::size_t>(i);
            reference[at].update(gradients[at] * scale, t, lr,
                                 info.decays ? options.weight_decay : 0, options);
          }
        }
      }
      const auto values = doubles(parameters.flat_values());
      const auto first = doubles(optimizer.first_moments());
      const auto second = doubles(optimizer.second_moments());
      for (std::size_t i = 0; i < values.size(); ++i) {
        ASSERT_NEAR(values[i], reference[i].value, tolerance) << i << ", seed " << kSeed;
        ASSERT_NEAR(first[i], reference[i].m, tolerance) << i << ", seed " << kSeed;
        ASSERT_NEAR(second[i], reference[i].v, tolerance) << i << ", seed " << kSeed;
      }
    }
  }
}

TEST(AdamW, MomentsHaveTheParametersDtypeAndOnePairPerElement) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const ParameterSet tied(tiny_model(true), dtype);
    const ParameterSet untied(tiny_model(false), dtype);
    const AdamW optimizer(tied, {});
    EXPECT_EQ(optimizer.first_moments().scalar_type(), dtype);
    EXPECT_EQ(optimizer.second_moments().scalar_type(), dtype);
    EXPECT_EQ(optimizer.first_moments().numel(), tied.size());
    EXPECT_EQ(AdamW(untied, {}).first_moments().numel(), tied.size() + 7 * 6);
    EXPECT_EQ(optimizer.num_updates(), 0);
    EXPECT_EQ(optimizer.first_moments().abs().max().item<double>(), 0);
  }
}

TEST(AdamW, ALearningRateOfZeroMovesMomentsButNoParameter) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    ParameterSet parameters(tiny_model(true), dtype);
    parameters.initialize(kSeed);
    const at::Tensor before = parameters.flat_values().clone();
    AdamW optimizer(parameters, {});
    fill_gradients(parameters, kSeed, 0);
    optimizer.update(parameters, 0.0, 1.0);
    EXPECT_TRUE(same_bits(parameters.flat_values(), before));
    EXPECT_GT(optimizer.second_moments().min().item<double>(), 0);
    EXPECT_EQ(optimizer.num_updates(), 1);
  }
}

TEST(AdamW, WithoutGradientOnlyTheDecayingParametersShrink) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    ParameterSet parameters(tiny_model(false), dtype);
    parameters.flat_values().fill_(1.0);
    AdamW optimizer(parameters, {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-30, .weight_decay = 0.5});
    optimizer.update(parameters, 0.25, 1.0);
    for (std::size_t i = 0; i < parameters.infos().size(); ++i) {
      const double expected = parameters.infos()[i].decays ? 0.875 : 1.0;
      EXPECT_TRUE(at::all(parameters.value(i) == expected).item<bool>())
          << parameters.infos()[i].name;
    }
  }
}

// lr * weight_decay = 3e-5 would keep three digits in float if 1 - 3e-5 were formed first.
TEST(AdamW, ASmallDecayIsNotLostToRoundingInFloat) {
  ParameterSet parameters(tiny_model(true), at::kFloat);
  const std::size_t matrix = parameters.index_of("model.layers.0.mlp.up_proj.weight");
  parameters.flat_values().fill_(1.0 / 1024);  // far from 1, so that a change of 3e-5 of it shows
  AdamW optimizer(parameters, {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1});
  for (int i = 0; i < 100; ++i) optimizer.update(parameters, 3e-4, 1.0);
  const double shrunk = parameters.value(matrix)[0][0].item<double>() * 1024;
  EXPECT_NEAR(1 - shrunk, 1 - std::pow(1 - 3e-5, 100), 5e-6);
}

TEST(AdamW, TinyAndHugeGradientsStayFinite) {
  ParameterSet parameters(tiny_model(true), at::kFloat);
  for (const double size : {1e-30, 1e-10, 1e10, 1e18}) {
    parameters.flat_values().fill_(1.0);
    parameters.flat_gradients().fill_(size);
    AdamW optimizer(parameters, {});
    optimizer.update(parameters, 0.1, 1.0);
    EXPECT_TRUE(at::all(at::isfinite(parameters.flat_values())).item<bool>()) << size;
    EXPECT_LE((parameters.flat_values() - 1).abs().max().item<double>(), 0.111) << size;
  }
}

TEST(AdamW, OptionsOutsideTheirRangeAreRefusedByName) {
  const ParameterSet parameters(tiny_model(true), at::kFloat);
  const auto refusal = [&](const AdamWOptions& options) -> std::string {
    try {
      const AdamW optimizer(parameters, options);
    } catch (const UserError& error) {
      return error.what();
    }
    return "accepted";
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double bad : {-0.1, 1.0, nan}) {
    EXPECT_NE(refusal({.beta1 = bad}).find("beta1"), std::string::npos) << bad;
    EXPECT_NE(refusal({.beta1 = 0.9, .beta2 = bad}).find("beta2"), std::string::npos) << bad;
  }
  // The last one is 0 in float.
  for (const double bad : {0.0, -1e-8, nan, 1e-50}) {
    EXPECT_NE(refusal({.beta1 = 0.9, .beta2 = 0.95, .eps = bad}).find("eps"), std::string::npos)
        << bad;
  }
  for (const double bad : {-0.1, nan}) {
    EXPECT_NE(refusal({.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = bad})
                  .find("weight_decay"),
              std::string::npos);
  }
  EXPECT_EQ(refusal({.beta1 = 0, .beta2 = 0, .eps = 1e-8, .weight_decay = 0}), "accepted");
}

TEST(AdamW, ArgumentsThatAreNotFiniteAreABug) {
  ParameterSet parameters(tiny_model(true), at::kDouble);
  AdamW optimizer(parameters, {});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(optimizer.update(parameters, nan, 1), InternalError);
  EXPECT_THROW(optimizer.update(parameters, -1, 1), InternalError);
  EXPECT_THROW(optimizer.update(parameters, 0.1, nan), InternalError);
  ParameterSet other(tiny_model(false), at::kDouble);
  EXPECT_THROW(optimizer.update(other, 0.1, 1), InternalError);
  EXPECT_EQ(optimizer.num_updates(), 0);
}

// What a trainer does with a reduced gradient: skip the step on all ranks together when it is not
// finite.
struct Trainee {
  ParameterSet parameters = ParameterSet(tiny_model(true), at::kDouble);
  AdamWOptions options;
  AdamW optimizer = AdamW(parameters, options);
  LearningRateSchedule schedule{.peak = 0.1, .minimum = 0.01, .warmup_steps = 2, .total_steps = 6};
  int skipped = 0;

  void step(Communicator& comm, std::int64_t step) {
    all_reduce_gradients(comm, parameters.flat_gradients(), Bytes(64), step);
    const double norm = global_norm(parameters.flat_gradients());
    if (!std::isfinite(norm)) {
      ++skipped;
      return;
    }
    optimizer.update(parameters, schedule.at(optimizer.num_updates()), clip_scale(norm, 1.0));
  }
};

// C026: one NaN on one rank at step 3. All ranks skip; afterwards the run goes on as if the step
// had not been.
TEST(AdamW, ASkippedStepLeavesParametersMomentsCountAndRateAsTheyWere) {
  for (const std::int32_t num_ranks : {1, 2, 3, 4, 7}) {
    std::mutex mutex;
    run_thread_ranks({.num_ranks = num_ranks}, [&](Communicator& comm) {
      Trainee hurt, clean;
      hurt.parameters.initialize(kSeed);
      clean.parameters.initialize(kSeed);
      const std::uint64_t seed = kSeed + static_cast<std::uint64_t>(comm.rank().value());
      for (std::int64_t step = 0; step < 6; ++step) {
        fill_gradients(hurt.parameters, seed, step);
        if (step == 3 && comm.rank() == Rank(num_ranks - 1)) {
          hurt.parameters.flat_gradients()[5] = std::numeric_limits<double>::quiet_NaN();
        }
        hurt.step(comm, step);
        if (step == 3) continue;
        fill_gradients(clean.parameters, seed, step);
        clean.step(comm, step);
      }
      const std::lock_guard lock(mutex);
      EXPECT_EQ(hurt.skipped, 1);
      EXPECT_EQ(clean.skipped, 0);
      EXPECT_EQ(hurt.optimizer.num_updates(), 5);
      EXPECT_EQ(clean.optimizer.num_updates(), 5);
      EXPECT_TRUE(same_bits(hurt.parameters.flat_values(), clean.parameters.flat_values()));
      EXPECT_TRUE(same_bits(hurt.optimizer.first_moments(), clean.optimizer.first_moments()));
      EXPECT_TRUE(same_bits(hurt.optimizer.second_moments(), clean.optimizer.second_moments()));
    });
  }
}

}  // namespace
}  // namespace weft
