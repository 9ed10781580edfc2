#include "cost/cost_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "base/error.h"

namespace weft {
namespace {

constexpr std::size_t kMostTerms = 3;
using Terms = std::array<double, kMostTerms>;

// A measured time and what it is made of: time = sum of coefficient * term.
struct Equation {
  Terms terms{};
  double seconds = 0;
};

// Relative: both sides divided by the measured time.
double squared_error(std::span<const Equation> equations, const Terms& coefficients) {
  double sum = 0;
  for (const Equation& equation : equations) {
    double fitted = 0;
    for (std::size_t i = 0; i < kMostTerms; ++i) fitted += coefficients[i] * equation.terms[i];
    const double error = fitted / equation.seconds - 1;
    sum += error * error;
  }
  return sum;
}

// Least squares over the terms in `used` by the normal equations, scaled so that each term's column
// has length 1; nullopt when they do not determine it.
std::optional<Terms> solve(std::span<const Equation> equations, std::span<const std::size_t> used) {
  const std::size_t n = used.size();
  Terms scale{};
  for (std::size_t i = 0; i < n; ++i) {
    for (const Equation& e : equations) {
      const double value = e.terms[used[i]] / e.seconds;
      scale[i] += value * value;
    }
    scale[i] = std::sqrt(scale[i]);
    if (!(scale[i] > 0)) return std::nullopt;
  }
  std::array<std::array<double, kMostTerms + 1>, kMostTerms> matrix{};
  for (const Equation& e : equations) {
    for (std::size_t i = 0; i < n; ++i) {
      const double row = e.terms[used[i]] / e.seconds / scale[i];
      for (std::size_t j = 0; j < n; ++j) {
        matrix[i][j] += row * e.terms[used[j]] / e.seconds / scale[j];
      }
      matrix[i][n] += row;
    }
  }
  // Gauss-Jordan with the largest pivot.
  constexpr double kSingular = 1e-10;
  for (std::size_t column = 0; column < n; ++column) {
    std::size_t pivot = column;
    for (std::size_t row = column; row < n; ++row) {
      if (std::abs(matrix[row][column]) > std::abs(matrix[pivot][column])) pivot = row;
    }
    if (std::abs(matrix[pivot][column]) < kSingular) return std::nullopt;
    std::swap(matrix[pivot], matrix[column]);
    for (std::size_t row = 0; row < n; ++row) {
      if (row == column) continue;
      const double factor = matrix[row][column] / matrix[column][column];
      for (std::size_t j = column; j <= n; ++j) matrix[row][j] -= factor * matrix[column][j];
    }
  }
  Terms coefficients{};
  for (std::size_t i = 0; i < n; ++i)
    coefficients[used[i]] = matrix[i][n] / matrix[i][i] / scale[i];
  return coefficients;
}

// The best non-negative coefficients: the best solution over all sets of terms that is one. An
// optimum with some coefficients at 0 solves the problem over the others, so it is among them.
std::optional<Terms> fit(std::span<const Equation> equations, std::size_t num_terms) {
  std::optional<Terms> best;
  double least = std::numeric_limits<double>::infinity();
  for (unsigned set = 1; set < 1U << num_terms; ++set) {
    std::vector<std::size_t> used;
    for (std::size_t i = 0; i < num_terms; ++i) {
      if ((set >> i & 1U) != 0) used.push_back(i);
    }
    const auto found = solve(equations, used);
    if (!found || std::any_of(found->begin(), found->end(), [](double c) { return c < 0; }))
      continue;
    const double error = squared_error(equations, *found);
    if (error < least) {
      least = error;
      best = found;
    }
  }
  return best;
}

FitQuality quality_of(std::span<const Equation> equations, const Terms& coefficients) {
  FitQuality quality;
  for (const Equation& equation : equations) {
    double fitted = 0;
    for (std::size_t i = 0; i < kMostTerms; ++i) fitted += coefficients[i] * equation.terms[i];
    const double error = fitted / equation.seconds - 1;
    quality.relative_errors.push_back(error);
    quality.mean_abs_error += std::abs(error) / static_cast<double>(equations.size());
    quality.worst_abs_error = std::max(quality.worst_abs_error, std::abs(error));
  }
  return quality;
}

void check_times(std::span<const Equation> equations, const char* what) {
  for (const Equation& equation : equations) {
    WEFT_USER_CHECK(std::isfinite(equation.seconds) && equation.seconds > 0,
                    "cannot fit the cost of {}: a measured time is {} s, expected above 0", what,
                    equation.seconds);
  }
}

}  // namespace

FitQuality fit_compute(std::span<const MicroBatchSample> samples, CostModel& cost) {
  std::vector<Equation> equations;
  double forward_s = 0, backward_s = 0;
  for (const MicroBatchSample& sample : samples) {
    equations.push_back(
        {.terms = {static_cast<double>(sample.work), static_cast<double>(sample.tokens.value()), 1},
         .seconds = sample.forward_s + sample.backward_s});
    forward_s += sample.forward_s;
    backward_s += sample.backward_s;
  }
  check_times(equations, "micro-batches");
  std::vector<std::pair<std::int64_t, std::int64_t>> shapes;
  for (const MicroBatchSample& sample : samples) {
    shapes.emplace_back(sample.tokens.value(), sample.work);
  }
  std::sort(shapes.begin(), shapes.end());
  shapes.erase(std::unique(shapes.begin(), shapes.end()), shapes.end());
  const auto found = fit(equations, 3);
  WEFT_USER_CHECK(shapes.size() >= 3 && forward_s > 0 && found,
                  "cannot fit the cost of micro-batches from {} of {} different shapes; at least 3 "
                  "that differ in tokens and in pairs are needed",
                  samples.size(), shapes.size());
  cost.backward_ratio = backward_s / forward_s;
  const double to_layer_forward_ns =
      1e9 / (static_cast<double>(cost.num_layers) * (1 + cost.backward_ratio));
  cost.attention_ns_per_pair = (*found)[0] * to_layer_forward_ns;
  cost.linear_ns_per_token = (*found)[1] * to_layer_forward_ns;
  cost.fixed_ns = (*found)[2] * to_layer_forward_ns;
  return quality_of(equations, *found);
}

FitQuality fit_hop(std::span<const HopSample> samples, CostModel& cost) {
  std::vector<Equation> equations;
  for (const HopSample& sample : samples) {
    equations.push_back(
        {.terms = {static_cast<double>(sample.tokens.value()), 1, 0}, .seconds = sample.seconds});
  }
  check_times(equations, "hops");
  const bool differ = std::any_of(samples.begin(), samples.end(), [&](const HopSample& sample) {
    return sample.tokens != samples.front().tokens;
  });
  const auto found = fit(equations, 2);
  WEFT_USER_CHECK(differ && found,
                  "cannot fit the cost of a hop from {} samples; at least 2 sizes are needed",
                  samples.size());
  cost.hop_ns_per_token = 1e9 * (*found)[0];
  cost.hop_fixed_ns = 1e9 * (*found)[1];
  return quality_of(equations, *found);
}

}  // namespace weft
