#include "sim/paper_figure17.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/parallel_parts.h"

namespace weft {
namespace {

constexpr std::size_t kNumContexts = kPaperContexts.size();

std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t last = first;
    while (last + 1 < order.size() && values[order[last + 1]] == values[order[first]]) ++last;
    for (std::size_t i = first; i <= last; ++i)
      ranks[order[i]] = static_cast<double>(first + last) / 2;
    first = last + 1;
  }
  return ranks;
}

// One step of all panels of a workload at one context. Static plans do not depend on the cost, so
// panels of as many ranks share theirs.
class PaperStep {
 public:
  PaperStep(const PaperRunOptions& options, std::size_t context_idx, const std::string& workload,
            std::int64_t batch)
      : options_(options),
        context_(kPaperContexts[context_idx]),
        sequences_(paper_sequences(workload, context_, batch)) {}

  PaperTimes times_of(const PaperPanel& panel) {
    const Scenario scenario = paper_scenario(panel.model, panel.num_devices, options_.calibration);
    PlanRequest request =
        plan_request(scenario, {.capacity = kPaperCapacity, .max_context = context_});
    request.sequences = sequences_;
    PaperTimes times;
    times.baseline_s = look_ahead(scenario, static_plan(request), false).step_s;
    times.naive_s = look_ahead(scenario, paper_naive_plan(request, false), false).step_s;
    request.options.strategy = "hdp";
    times.balanced_s = look_ahead(scenario, make_plan(request), false).step_s;
    return times;
  }

 private:
  StepPlan static_plan(PlanRequest request) {
    request.options.strategy = "static";
    const ClusterSpec cluster = request.cluster;
    auto found = static_plans_.find(request.cluster.num_ranks);
    if (found == static_plans_.end()) {
      request.cluster.pipeline_stages = request.cluster.virtual_stages = 1;
      found = static_plans_.emplace(request.cluster.num_ranks, make_plan(request)).first;
    }
    StepPlan plan = found->second;
    plan.num_layers = request.cost.num_layers;
    plan.pipeline_stages = cluster.pipeline_stages;
    plan.virtual_stages = cluster.virtual_stages;
    return plan;
  }

  const PaperRunOptions& options_;
  Tokens context_;
  std::vector<SequenceSpec> sequences_;
  std::map<std::int32_t, StepPlan> static_plans_;  // by ranks
};

void add_labels(PaperFigure17& figure) {
  const auto panels = paper_panels();
  for (std::size_t p = 0; p < panels.size(); ++p) {
    for (std::size_t c = 0; c < kNumContexts; ++c) {
      const PaperTimes& times = figure.times[p][c];
      const auto label = [&](bool is_balanced, double published, double predicted) {
        figure.labels.push_back({.panel_idx = static_cast<std::int32_t>(p),
                                 .context_idx = static_cast<std::int32_t>(c),
                                 .is_balanced = is_balanced,
                                 .published = published,
                                 .predicted = predicted,
                                 .is_calibration = panels[p].is_calibration()});
      };
      label(false, panels[p].naive[c], times.baseline_s / times.naive_s);
      label(true, panels[p].balanced[c], times.baseline_s / times.balanced_s);
    }
  }
}

}  // namespace

PaperFigure17 predict_figure17(const PaperRunOptions& options) {
  struct Job {
    std::string workload;
    std::size_t context_idx = 0;
    std::int64_t batch = 0;
    std::vector<PaperTimes> times = {};  // [panels], 0 for those of another workload
  };
  const auto panels = paper_panels();
  std::vector<Job> jobs;
  for (const std::string workload : {"github", "byted"}) {
    for (std::size_t c = 0; c < kNumContexts; ++c) {
      for (std::int64_t batch = 0; batch < options.num_steps; ++batch)
        jobs.push_back({.workload = workload, .context_idx = c, .batch = batch});
    }
  }
  for_each_part(options.num_threads, jobs.size(), [&](std::size_t j) {
    Job& job = jobs[j];
    if (options.progress) {
      options.progress(fmt::format("{} {}, step {} of {}", job.workload,
                                   format_count(kPaperContexts[job.context_idx].value()),
                                   job.batch + 1, options.num_steps));
    }
    PaperStep step(options, job.context_idx, job.workload, job.batch);
    job.times.resize(panels.size());
    for (std::size_t p = 0; p < panels.size(); ++p) {
      if (panels[p].workload == job.workload) job.times[p] = step.times_of(panels[p]);
    }
  });
  PaperFigure17 figure;
  figure.times.assign(panels.size(), std::vector<PaperTimes>(kNumContexts));
  const auto steps = static_cast<double>(options.num_steps);
  for (const Job& job : jobs) {
    for (std::size_t p = 0; p < panels.size(); ++p) {
      PaperTimes& mean = figure.times[p][job.context_idx];
      mean.baseline_s += job.times[p].baseline_s / steps;
      mean.naive_s += job.times[p].naive_s / steps;
      mean.balanced_s += job.times[p].balanced_s / steps;
    }
  }
  add_labels(figure);
  return figure;
}

PaperErrors errors_of(const PaperFigure17& figure,
                      const std::function<bool(const PaperLabel&)>& is_wanted) {
  PaperErrors errors;
  std::vector<double> published;
  std::vector<double> predicted;
  for (const PaperLabel& label : figure.labels) {
    if (label.is_calibration || !is_wanted(label)) continue;
    published.push_back(label.published);
    predicted.push_back(label.predicted);
    errors.mean_abs_error += std::abs(label.error());
    errors.num_slower += label.published > 1 && label.predicted < 1 ? 1 : 0;
  }
  errors.num_labels = static_cast<std::int32_t>(published.size());
  if (errors.num_labels > 0) errors.mean_abs_error /= errors.num_labels;
  errors.rank_correlation = rank_correlation(published, predicted);
  return errors;
}

double rank_correlation(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() < 2) return 0;
  const std::vector<double> ranks_a = ranks_of(a);
  const std::vector<double> ranks_b = ranks_of(b);
  const double mean = static_cast<double>(a.size() - 1) / 2;
  double both = 0;
  double own_a = 0;
  double own_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    both += (ranks_a[i] - mean) * (ranks_b[i] - mean);
    own_a += (ranks_a[i] - mean) * (ranks_a[i] - mean);
    own_b += (ranks_b[i] - mean) * (ranks_b[i] - mean);
  }
  return own_a > 0 && own_b > 0 ? both / std::sqrt(own_a * own_b) : 0;
}

PaperScaling scaling_of(const PaperFigure17& figure) {
  const auto panels = paper_panels();
  double log_sum[3] = {0, 0, 0};
  double doublings = 0;
  for (std::size_t p = 0; p < panels.size(); ++p) {
    if (panels[p].workload != "github") continue;
    const PaperTimes& first = figure.times[p].front();
    const PaperTimes& last = figure.times[p].back();
    log_sum[0] += std::log(last.baseline_s / first.baseline_s);
    log_sum[1] += std::log(last.naive_s / first.naive_s);
    log_sum[2] += std::log(last.balanced_s / first.balanced_s);
    doublings += static_cast<double>(kNumContexts - 1);
  }
  return {.baseline = std::exp(log_sum[0] / doublings),
          .naive = std::exp(log_sum[1] / doublings),
          .balanced = std::exp(log_sum[2] / doublings)};
}

}  // namespace weft
