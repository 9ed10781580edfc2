#include "cost/cost_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <set>

#include "base/error.h"

namespace weft {
namespace {

constexpr std::size_t kMostTerms = 5;
constexpr std::size_t kWholeTerms = 3;  // of whole sequences; the rest are of rings
using Terms = std::array<double, kMostTerms>;

// A measured time and what it is made of: time = sum of coefficient * term. Errors count in parts
// of `scale`, the time of the whole measurement.
struct Equation {
  Terms terms{};
  double seconds = 0;
  double scale = seconds;
};

double fitted_seconds(const Equation& equation, const Terms& coefficients) {
  double fitted = 0;
  for (std::size_t i = 0; i < kMostTerms; ++i) fitted += coefficients[i] * equation.terms[i];
  return fitted;
}

double squared_error(std::span<const Equation> equations, const Terms& coefficients) {
  double sum = 0;
  for (const Equation& equation : equations) {
    const double error =
        (fitted_seconds(equation, coefficients) - equation.seconds) / equation.scale;
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
      const double value = e.terms[used[i]] / e.scale;
      scale[i] += value * value;
    }
    scale[i] = std::sqrt(scale[i]);
    if (!(scale[i] > 0)) return std::nullopt;
  }
  std::array<std::array<double, kMostTerms + 1>, kMostTerms> matrix{};
  for (const Equation& e : equations) {
    for (std::size_t i = 0; i < n; ++i) {
      const double row = e.terms[used[i]] / e.scale / scale[i];
      for (std::size_t j = 0; j < n; ++j) {
        matrix[i][j] += row * e.terms[used[j]] / e.scale / scale[j];
      }
      matrix[i][n] += row * e.seconds / e.scale;
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
// With terms [first, first + num_terms).
std::optional<Terms> fit(std::span<const Equation> equations, std::size_t first,
                         std::size_t num_terms) {
  std::optional<Terms> best;
  double least = std::numeric_limits<double>::infinity();
  for (unsigned set = 1; set < 1U << num_terms; ++set) {
    std::vector<std::size_t> used;
    for (std::size_t i = 0; i < num_terms; ++i) {
      if ((set >> i & 1U) != 0) used.push_back(first + i);
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
    const double error = fitted_seconds(equation, coefficients) / equation.seconds - 1;
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

// What the further steps of rings take beyond the terms of whole sequences; 0 without rings, or
// when rings are no slower.
void add_ring_terms(std::span<const Equation> equations, Terms& coefficients) {
  std::vector<Equation> rest;
  for (const Equation& equation : equations) {
    if (equation.terms[kWholeTerms] == 0) continue;
    rest.push_back({.terms = equation.terms,
                    .seconds = equation.seconds - fitted_seconds(equation, coefficients),
                    .scale = equation.seconds});
  }
  const std::optional<Terms> found = fit(rest, kWholeTerms, kMostTerms - kWholeTerms);
  if (!found) return;
  for (std::size_t i = kWholeTerms; i < kMostTerms; ++i) coefficients[i] = (*found)[i];
}

}  // namespace

FitQuality fit_compute(std::span<const MicroBatchSample> samples, CostModel& cost) {
  std::vector<Equation> equations;
  std::vector<Equation> whole;
  double forward_s = 0, backward_s = 0;
  std::set<std::pair<std::int64_t, std::int64_t>> shapes;
  for (const MicroBatchSample& sample : samples) {
    const auto tokens = static_cast<double>(sample.tokens.value());
    const auto steps = static_cast<double>(sample.ring_steps);
    equations.push_back(
        {.terms = {static_cast<double>(sample.work), tokens, 1, steps * tokens, steps},
         .seconds = sample.forward_s + sample.backward_s});
    forward_s += sample.forward_s;
    backward_s += sample.backward_s;
    if (sample.ring_steps > 0) continue;
    whole.push_back(equations.back());
    shapes.emplace(sample.tokens.value(), sample.work);
  }
  check_times(equations, "micro-batches");
  std::optional<Terms> found = fit(whole, 0, kWholeTerms);
  WEFT_USER_CHECK(shapes.size() >= 3 && forward_s > 0 && found,
                  "cannot fit the cost of micro-batches from {} of {} different shapes; at least 3 "
                  "that differ in tokens and in pairs are needed",
                  whole.size(), shapes.size());
  add_ring_terms(equations, *found);
  cost.backward_ratio = backward_s / forward_s;
  const double to_layer_forward_ns =
      1e9 / (static_cast<double>(cost.num_layers) * (1 + cost.backward_ratio));
  cost.attention_ns_per_pair = (*found)[0] * to_layer_forward_ns;
  cost.linear_ns_per_token = (*found)[1] * to_layer_forward_ns;
  cost.fixed_ns = (*found)[2] * to_layer_forward_ns;
  cost.ring_step_ns_per_token = (*found)[3] * to_layer_forward_ns;
  cost.ring_step_fixed_ns = (*found)[4] * to_layer_forward_ns;
  return quality_of(equations, *found);
}

namespace {

// seconds = slope * size + constant.
struct Line {
  double slope = 0;
  double constant = 0;
  FitQuality quality;
};

// `size_of`: what a sample's time grows with.
template <class Sample, class SizeOf>
Line fit_line(std::span<const Sample> samples, const char* what, const SizeOf& size_of) {
  std::vector<Equation> equations;
  for (const Sample& sample : samples) {
    equations.push_back(
        {.terms = {static_cast<double>(size_of(sample)), 1}, .seconds = sample.seconds});
  }
  check_times(equations, what);
  const bool differ = std::any_of(equations.begin(), equations.end(), [&](const Equation& e) {
    return e.terms[0] != equations.front().terms[0];
  });
  const auto found = fit(equations, 0, 2);
  WEFT_USER_CHECK(differ && found,
                  "cannot fit the cost of {} from {} samples; at least 2 sizes are needed", what,
                  equations.size());
  return {(*found)[0], (*found)[1], quality_of(equations, *found)};
}

}  // namespace

void fit_spread(std::span<const std::vector<double>> runs_of_shapes, CostModel& cost) {
  double sum_s = 0, num_free = 0;  // the mean takes one of n deviations
  for (const std::vector<double>& runs_s : runs_of_shapes) {
    if (runs_s.size() < 2) continue;
    const double mean_s =
        std::accumulate(runs_s.begin(), runs_s.end(), 0.0) / static_cast<double>(runs_s.size());
    WEFT_USER_CHECK(std::isfinite(mean_s) && mean_s > 0,
                    "cannot fit the spread of micro-batches: a mean time is {} s, expected above 0",
                    mean_s);
    for (const double run_s : runs_s) sum_s += (run_s - mean_s) * (run_s - mean_s) / mean_s;
    num_free += static_cast<double>(runs_s.size() - 1);
  }
  cost.spread_ns = num_free > 0 ? 1e9 * sum_s / num_free : 0;
}

FitQuality fit_hop(std::span<const HopSample> samples, CostModel& cost) {
  Line line = fit_line(samples, "hops", [](const HopSample& hop) { return hop.tokens.value(); });
  cost.hop_ns_per_token = 1e9 * line.slope;
  cost.hop_fixed_ns = 1e9 * line.constant;
  std::vector<Equation> unhidden;
  for (const HopSample& hop : samples) {
    WEFT_CHECK(hop.unhidden_s >= 0 && hop.unhidden_s <= hop.seconds,
               "of a hop of {} s compute leaves {} s, expected 0 to all of it", hop.seconds,
               hop.unhidden_s);
    unhidden.push_back({.terms = {static_cast<double>(hop.tokens.value()), 1},
                        .seconds = hop.unhidden_s,
                        .scale = hop.seconds});
  }
  if (const auto found = fit(unhidden, 0, 2)) {
    cost.ring_step_ns_per_token += 1e9 * (*found)[0];
    cost.ring_step_fixed_ns += 1e9 * (*found)[1];
  }
  return std::move(line.quality);
}

FitQuality fit_reduction(std::span<const ReductionSample> samples, CostModel& cost) {
  Line line = fit_line(samples, "reductions",
                       [](const ReductionSample& reduction) { return reduction.sent.value(); });
  cost.reduce_ns_per_byte = 1e9 * line.slope;
  cost.reduce_fixed_ns = 1e9 * line.constant;
  return std::move(line.quality);
}

}  // namespace weft
