// Fitting a CostModel to measured times: what `weft profile` does with its samples.
//
// a, b, c are the non-negative coefficients that make the squared relative errors of
// time = layers * (1 + backward_ratio) * (a * work + b * tokens + c) smallest, over whole
// micro-batches; relative, so that short ones count as much as long ones. A hop's two coefficients
// are fitted likewise. Deterministic: three unknowns are solved for every set of them that may be
// positive.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cost/cost_model.h"

namespace weft {

// One micro-batch of whole sequences on one rank.
struct MicroBatchSample {
  Tokens tokens{};
  std::int64_t work = 0;  // causal pairs
  double forward_s = 0;   // all layers, embedding and head included
  double backward_s = 0;
};

struct HopSample {
  Tokens tokens{};  // of K and V sent, and as many received
  double seconds = 0;
};

struct FitQuality {
  std::vector<double> relative_errors;  // fitted / measured - 1, in the samples' order
  double mean_abs_error = 0;
  double worst_abs_error = 0;
};

// Sets attention_ns_per_pair, linear_ns_per_token, fixed_ns and backward_ratio; num_layers is
// given. UserError unless there are at least three samples of positive time that differ in shape.
FitQuality fit_compute(std::span<const MicroBatchSample> samples, CostModel& cost);
// Sets hop_ns_per_token and hop_fixed_ns. UserError unless two samples differ in tokens.
FitQuality fit_hop(std::span<const HopSample> samples, CostModel& cost);

}  // namespace weft
