// Fitting a CostModel to measured times: what `weft profile` does with its samples.
//
// a, b, c are the non-negative coefficients that make the squared relative errors of
// time = layers * (1 + backward_ratio) * (a * work + b * tokens + c) smallest, over micro-batches
// of whole sequences; relative, so that short ones count as much as long ones. What rings take
// beyond that is fitted to steps * (d * tokens + e), with `steps` the ring steps after the first.
// The two coefficients of a hop, and of a reduction, are fitted likewise. Deterministic: the
// unknowns are solved for every set of them that may be positive.
//
// Equal runs differ. Delays come and go while a run lasts, so the variance of its time is taken as
// `spread` times its mean, and the spread as the mean over all runs of deviation^2 / mean.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cost/cost_model.h"

namespace weft {

// One micro-batch on one rank: whole sequences, or its part of one that a ring shares.
struct MicroBatchSample {
  Tokens tokens{};
  std::int64_t work = 0;        // causal pairs
  std::int64_t ring_steps = 0;  // degree - 1
  double forward_s = 0;         // all layers, embedding and head included
  double backward_s = 0;
};

struct HopSample {
  Tokens tokens{};  // of K and V sent, and as many received
  double seconds = 0;
  double unhidden_s = 0;  // of it beside compute that lasts longer, 0 to `seconds`
};

struct ReductionSample {
  Bytes sent{};  // by one rank, of gradients and their sums
  double seconds = 0;
};

struct FitQuality {
  std::vector<double> relative_errors;  // fitted / measured - 1, in the samples' order
  double mean_abs_error = 0;
  double worst_abs_error = 0;
};

// Sets attention_ns_per_pair, linear_ns_per_token, fixed_ns, backward_ratio and, with samples of
// rings, their two; num_layers is given. UserError unless there are at least three samples of
// positive time that differ in shape.
FitQuality fit_compute(std::span<const MicroBatchSample> samples, CostModel& cost);
// Sets hop_ns_per_token and hop_fixed_ns, and adds what no compute hides to the two terms of ring
// steps, which rings pay as often; errors of that count in parts of the hop. UserError unless two
// samples differ in tokens.
FitQuality fit_hop(std::span<const HopSample> samples, CostModel& cost);
// Sets reduce_ns_per_byte and reduce_fixed_ns. UserError unless two samples differ in bytes.
FitQuality fit_reduction(std::span<const ReductionSample> samples, CostModel& cost);
// Sets spread_ns from the seconds of equal runs, shape by shape; 0 where nothing ran twice.
void fit_spread(std::span<const std::vector<double>> runs_of_shapes, CostModel& cost);

}  // namespace weft
