// ByteScale Fig. 17 predicted: 96 speedups of naive and balanced HDP over static meshes, and how
// far the predictions are from the published ones.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/paper_setup.h"

namespace weft {

struct PaperLabel {
  std::int32_t panel_idx = 0;
  std::int32_t context_idx = 0;
  bool is_balanced = false;  // else naive
  double published = 0;
  double predicted = 0;
  bool is_calibration = false;
  double error() const { return predicted / published - 1; }
};

// Times of one setting, means over the steps.
struct PaperTimes {
  double baseline_s = 0;
  double naive_s = 0;
  double balanced_s = 0;
};

struct PaperFigure17 {
  std::vector<PaperLabel> labels;              // by panel, context, naive before balanced
  std::vector<std::vector<PaperTimes>> times;  // [panels][contexts]
};

// Of held-out labels alone.
struct PaperErrors {
  double mean_abs_error = 0;  // relative
  double rank_correlation = 0;
  std::int32_t num_labels = 0;
  std::int32_t num_slower = 0;  // predicted below 1 where the paper is above
};

struct PaperRunOptions {
  std::int64_t num_steps = 2;
  int num_threads = 1;  // results are the same for any number
  PaperCalibration calibration;
  std::function<void(const std::string&)> progress;  // may be empty; called by any of the threads
};

PaperFigure17 predict_figure17(const PaperRunOptions& options);

// Over the labels for which `is_wanted` holds.
PaperErrors errors_of(const PaperFigure17& figure,
                      const std::function<bool(const PaperLabel&)>& is_wanted);

// Spearman's, with mean ranks for equal values. 0 for fewer than two.
double rank_correlation(const std::vector<double>& a, const std::vector<double>& b);

// Throughput lost per doubling of the context on GitHub: geometric means over the panels.
PaperScaling scaling_of(const PaperFigure17& figure);

}  // namespace weft
