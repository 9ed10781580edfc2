#include "sim/paper_claims.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "cost/micro_batch_time.h"
#include "plan/evaluate.h"
#include "plan/offload.h"

namespace weft {
namespace {

constexpr std::size_t kLongest = 3;  // of kPaperContexts: 2M

struct CaseStudy {
  explicit CaseStudy(const PaperRunOptions& options)
      : scenario(paper_scenario("llama-7b", 1024, options.calibration)),
        request(plan_request(
            scenario, {.capacity = kPaperCapacity, .max_context = kPaperContexts[kLongest]})) {}
  void draw(std::int64_t batch) {
    request.sequences = paper_sequences("byted", kPaperContexts[kLongest], batch);
  }
  StepPlan planned(const std::string& strategy, bool offload) {
    request.options.strategy = strategy;
    request.options.offload = offload;
    return make_plan(request);
  }
  double time(const StepPlan& plan) const { return look_ahead(scenario, plan, false).step_s; }

  Scenario scenario;
  PlanRequest request;
};

struct Spread {
  double least = 0;
  double most = 0;
  double deviation = 0;
  double mean = 0;
};

// Of the compute time of ranks.
Spread compute_spread(const Timeline& timeline) {
  std::vector<double> busy(static_cast<std::size_t>(timeline.num_ranks));
  for (const TimelineEvent& event : timeline.events) {
    if (event.activity == Activity::kForward || event.activity == Activity::kBackward)
      busy[static_cast<std::size_t>(event.rank)] += seconds(event.end - event.start);
  }
  Spread spread{.least = *std::min_element(busy.begin(), busy.end()),
                .most = *std::max_element(busy.begin(), busy.end())};
  for (const double time : busy) spread.mean += time / static_cast<double>(busy.size());
  for (const double time : busy)
    spread.deviation +=
        (time - spread.mean) * (time - spread.mean) / static_cast<double>(busy.size());
  spread.deviation = std::sqrt(spread.deviation);
  return spread;
}

double attention_ms(const CostModel& cost, double pairs) {
  return cost.attention_ns_per_pair * pairs * 1e-6;
}

// Mean over largest sum of a row of six micro-batches, and largest over smallest micro-batch.
void pack_at_random(std::uint64_t seed, double& balance, double& spread) {
  constexpr int kSide = 6;
  constexpr std::int64_t kMicroBatch = 32 << 10;
  const std::vector<SequenceSpec> sequences =
      paper_sequences("github", Tokens(kMicroBatch), static_cast<std::int64_t>(seed),
                      Tokens(kSide * kSide * kMicroBatch));
  // First fit in order of arrival, as packing goes that looks at tokens alone.
  std::vector<std::int64_t> tokens;
  std::vector<double> pairs;
  for (const SequenceSpec& sequence : sequences) {
    const std::int64_t length = sequence.tokens.value();
    std::size_t at = 0;
    while (at < tokens.size() && tokens[at] + length > kMicroBatch) ++at;
    if (at == tokens.size()) {
      if (at == kSide * kSide) continue;  // what does not fit is left for the next step
      tokens.push_back(0);
      pairs.push_back(0);
    }
    tokens[at] += length;
    pairs[at] += static_cast<double>(length) * static_cast<double>(length + 1) / 2;
  }
  pairs.resize(kSide * kSide);
  double rows[kSide] = {};
  double sum = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    rows[i % kSide] += pairs[i];
    sum += pairs[i];
  }
  balance = sum / kSide / *std::max_element(rows, rows + kSide);
  spread = *std::max_element(pairs.begin(), pairs.end()) /
           std::max(1.0, *std::min_element(pairs.begin(), pairs.end()));
}

}  // namespace

std::vector<PaperClaim> predict_ablation(const PaperRunOptions& options) {
  CaseStudy study(options);
  double baseline = 0;
  double naive = 0;
  double offloaded = 0;
  double balanced = 0;
  for (std::int64_t batch = 0; batch < options.num_steps; ++batch) {
    if (options.progress)
      options.progress(fmt::format("ablation, step {} of {}", batch + 1, options.num_steps));
    study.draw(batch);
    baseline += study.time(study.planned("static", false));
    naive += study.time(paper_naive_plan(study.request, false));
    offloaded += study.time(paper_naive_plan(study.request, true));
    balanced += study.time(study.planned("hdp", true));
  }
  const PaperAblation published;
  return {
      {"ablation", "+ dynamic communication", published.dynamic_communication, baseline / naive},
      {"ablation", "+ selective offload", published.selective_offload, baseline / offloaded},
      {"ablation", "+ balance", published.balance, baseline / balanced}};
}

std::vector<PaperClaim> predict_case_study(const PaperRunOptions& options) {
  CaseStudy study(options);
  study.draw(0);
  const double baseline = study.time(study.planned("static", false));
  const StepOutlook naive = look_ahead(study.scenario, paper_naive_plan(study.request, true), true);
  const StepOutlook balanced = look_ahead(study.scenario, study.planned("hdp", true), true);
  const Spread naive_spread = compute_spread(naive.timeline);
  const Spread balanced_spread = compute_spread(balanced.timeline);
  const PaperCaseStudy published;
  return {
      {"case study", "baseline step, s", published.baseline_s, baseline},
      {"case study", "baseline over naive", published.baseline_s / published.naive_s,
       baseline / naive.step_s},
      {"case study", "naive over balanced", published.naive_s / published.balanced_s,
       naive.step_s / balanced.step_s},
      {"case study", "naive: most over least compute of a rank",
       published.naive_most_s / published.naive_least_s, naive_spread.most / naive_spread.least},
      {"case study", "naive: deviation over most compute",
       published.naive_deviation_s / published.naive_most_s,
       naive_spread.deviation / naive_spread.most},
      {"case study", "most compute, naive over balanced", 2.3,
       naive_spread.most / balanced_spread.most}};
}

std::vector<PaperClaim> predict_ring_overlap(const PaperRunOptions& options) {
  const CostModel cost = paper_scenario("llama-7b", 1024, options.calibration).cost;
  constexpr double kShare = 8192;
  const double hop = (cost.hop_fixed_ns + cost.hop_ns_per_token * kShare) * 1e-6;
  const double long_step = attention_ms(cost, kShare * kShare / 2);
  const RingShare wide{.work = static_cast<std::int64_t>(kShare * kShare / 2),
                       .tokens = kPaperCapacity,
                       .degree = 256,
                       .largest_member = kPaperCapacity};
  const double wide_ms =
      (exposed_exchange_ns(cost, wide, 1) + cost.attention_ns_per_pair * double(wide.work)) * 1e-6;
  const double long_ms = std::max(long_step, hop) * 38 + long_step;
  return {{"ring overlap", "hop of 8K tokens, ms", 1.65, hop},
          {"ring overlap", "static over 256 ranks, attention of a layer, ms", 405, wide_ms},
          {"ring overlap", "312K over 39 ranks, compute of a ring step, ms", 2.8, long_step},
          {"ring overlap", "312K over 39 ranks, attention of a layer, ms", 110, long_ms}};
}

std::vector<PaperClaim> predict_random_packing() {
  constexpr int kTrials = 200;
  std::vector<double> balances;
  std::vector<double> spreads;
  for (std::uint64_t seed = 0; seed < kTrials; ++seed) {
    double balance = 0;
    double spread = 0;
    pack_at_random(seed, balance, spread);
    balances.push_back(balance);
    spreads.push_back(spread);
  }
  std::sort(balances.begin(), balances.end());
  std::sort(spreads.begin(), spreads.end());
  return {{"random packing", "mean over largest row, median of 200", kPaperRowBalance,
           balances[kTrials / 2]},
          {"random packing", "largest over smallest micro-batch, median", kPaperCellSpread,
           spreads[kTrials / 2]}};
}

std::vector<PaperClaim> predict_degrees() {
  const auto needed = [](std::int64_t kilo_tokens) {
    return static_cast<double>(ranks_needed(Tokens(kilo_tokens << 10), kPaperCapacity));
  };
  const Tokens most = most_offloaded(kPaperCapacity, 32);
  return {{"degrees", "1M tokens at 8K a rank", 128, needed(1024)},
          {"degrees", "768K tokens", 96, needed(768)},
          {"degrees", "16K tokens", 2, needed(16)},
          {"degrees", "2M tokens of 32 layers, all offloaded", 16,
           static_cast<double>(ranks_needed(Tokens(2 << 20), most))}};
}

std::vector<PaperClaim> predict_offload_curve() {
  // A layer whose copy at half the activations takes as long as its forward pass.
  CostModel cost;
  cost.num_layers = 32;
  cost.backward_ratio = 2.5;
  constexpr double kLayer = 1e6;
  constexpr double kFreeRatio = 0.5;
  const double plain = static_cast<double>(all_layers(cost, kLayer).value());
  // Memory without offload and with all of it fix what does not shrink.
  constexpr double kAllLayers = 1;
  const double kept_at_one = resident_tokens(Tokens(1 << 20), 1, 32) / (1 << 20);
  const double activations = (kAllLayers - kPaperOffload.back().memory) / (1 - kept_at_one);
  std::vector<PaperClaim> claims;
  for (const PaperOffloadPoint& point : kPaperOffload) {
    const double time = static_cast<double>(
        offloaded_time(cost, kLayer, point.ratio / kFreeRatio * kLayer).value());
    const double kept = resident_tokens(Tokens(1 << 20), point.ratio, 32) / (1 << 20);
    claims.push_back(
        {"offload", fmt::format("step time at r = {}", point.ratio), point.time, time / plain});
    claims.push_back({"offload", fmt::format("memory at r = {}", point.ratio), point.memory,
                      1 - activations * (1 - kept)});
  }
  claims.push_back({"offload", "step time with recomputation", kPaperRecomputeTime,
                    (1 + cost.backward_ratio + 1) / (1 + cost.backward_ratio)});
  return claims;
}

}  // namespace weft
