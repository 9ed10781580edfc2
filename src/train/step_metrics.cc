#include "train/step_metrics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/json_text.h"

namespace weft {
namespace {

// printf shows the sign bit of a NaN; it means nothing.
double unsigned_nan(double value) { return std::isnan(value) ? std::abs(value) : value; }

}  // namespace

void merge_rank_measures(std::span<const RankMeasures> measures, StepMetrics& metrics) {
  const double count = static_cast<double>(measures.size());
  metrics.times = StepTimes();
  metrics.exchange_bytes = metrics.reduce_bytes = metrics.offload_bytes = metrics.peak_bytes =
      metrics.resident_bytes = Bytes();
  double most_busy_s = -1;
  for (std::size_t i = 0; i < measures.size(); ++i) {
    const RankMeasures& rank = measures[i];
    for (int phase = 0; phase < kNumPhases; ++phase) {
      metrics.times.seconds[phase] += rank.times.seconds[phase] / count;
      metrics.times.allocations[phase] += rank.times.allocations[phase];
    }
    metrics.times.step_s += rank.times.step_s / count;
    metrics.times.busy_s += rank.times.busy_s / count;
    metrics.exchange_bytes += rank.exchange_bytes;
    metrics.reduce_bytes += rank.reduce_bytes;
    metrics.offload_bytes += rank.offload_bytes;
    metrics.peak_bytes = std::max(metrics.peak_bytes, rank.peak_bytes);
    metrics.resident_bytes = std::max(metrics.resident_bytes, rank.resident_bytes);
    if (rank.times.busy_s > most_busy_s) {
      most_busy_s = rank.times.busy_s;
      metrics.slowest_rank = Rank(static_cast<std::int64_t>(i));
    }
  }
  metrics.imbalance = metrics.times.busy_s > 0 ? most_busy_s / metrics.times.busy_s : 1;
}

void describe_plan(const StepPlan& plan, StepMetrics& metrics) {
  metrics.step = plan.step;
  metrics.tokens = Tokens();
  metrics.target_tokens = 0;
  for (const SequenceSpec& sequence : plan.sequences) {
    metrics.tokens += sequence.tokens;
    metrics.target_tokens += sequence.num_targets;
  }
  metrics.sharded_sequences = static_cast<std::int64_t>(plan.groups.size());
  metrics.max_degree = plan.sequences.empty() ? 0 : 1;
  for (const Group& group : plan.groups) {
    metrics.max_degree =
        std::max(metrics.max_degree, static_cast<std::int32_t>(group.ranks.size()));
  }
  metrics.gap = plan.gap();
  metrics.predicted_s = seconds(plan.makespan);
}

std::string to_json_line(const StepMetrics& m) {
  const StepTimes& t = m.times;
  const auto allocations = [&](Phase phase) {
    return t.allocations[static_cast<std::size_t>(phase)];
  };
  const std::int64_t other_allocations =
      std::accumulate(t.allocations.begin(), t.allocations.end(), std::int64_t{0}) -
      allocations(Phase::kData) - allocations(Phase::kForward) - allocations(Phase::kBackward);
  std::string line = fmt::format(
      R"({{"schema":"weft.metrics.v1","step":{},"loss":{},"grad_norm":{},"lr":{},"tokens":{},"target_tokens":{},)"
      R"("padded_tokens":{},"tokens_per_s":{},"mfu":{},)",
      m.step, json_number(m.loss), json_number(m.grad_norm), json_number(m.lr), m.tokens,
      m.target_tokens, m.padded_tokens, json_number(m.tokens_per_s), json_number(m.mfu));
  line += fmt::format(
      R"("step_s":{},"plan_s":{},"data_s":{},"forward_s":{},"backward_s":{},"exchange_s":{},"offload_s":{},)"
      R"("reduce_s":{},"optimizer_s":{},)",
      json_number(t.step_s), json_number(t[Phase::kPlan]), json_number(t[Phase::kData]),
      json_number(t[Phase::kForward]), json_number(t[Phase::kBackward]),
      json_number(t[Phase::kExchange]), json_number(t[Phase::kOffload]),
      json_number(t[Phase::kReduce]), json_number(t[Phase::kOptimizer]));
  line += fmt::format(
      R"("imbalance":{},"slowest_rank":{},"gap":{},"predicted_s":{},"exchange_bytes":{},"reduce_bytes":{},"offload_bytes":{},"peak_bytes":{},)"
      R"("predicted_peak_bytes":{},"resident_bytes":{},)"
      R"("data_allocations":{},"forward_allocations":{},"backward_allocations":{},"other_allocations":{},)"
      R"("sharded_sequences":{},"max_degree":{},"skipped_steps":{},"dropped_sequences":{},"plan_hash":"{}",)"
      R"("resumed_at":{}}})",
      json_number(m.imbalance), m.slowest_rank, json_number(m.gap), json_number(m.predicted_s),
      m.exchange_bytes, m.reduce_bytes, m.offload_bytes, m.peak_bytes, m.predicted_peak_bytes,
      m.resident_bytes, allocations(Phase::kData), allocations(Phase::kForward),
      allocations(Phase::kBackward), other_allocations, m.sharded_sequences, m.max_degree,
      m.skipped_steps, m.dropped_sequences, m.plan_hash.hex(),
      m.resumed_at ? std::to_string(*m.resumed_at) : "null");
  return line;
}

std::string to_log_line(const StepMetrics& m, std::int64_t num_steps) {
  std::string line = fmt::format(
      "step {:>{}}/{} | loss {:.4f} | grad norm {:.3f} | lr {:.2e} | {:.0f} tokens/s | mfu {:.1f} "
      "% | step {:.2f} s | "
      "imbalance {:.2f} | exchange {} | peak {} | sharded {} | degree {}",
      m.step + 1, std::to_string(num_steps).size(), num_steps, unsigned_nan(m.loss),
      unsigned_nan(m.grad_norm), m.lr, m.tokens_per_s, 100 * m.mfu, m.times.step_s, m.imbalance,
      format_bytes(m.exchange_bytes), format_bytes(m.peak_bytes), m.sharded_sequences,
      m.max_degree);
  if (m.offload_bytes > 0_B) {
    line += fmt::format(" | offload {}, waited {:.2f} s", format_bytes(m.offload_bytes),
                        m.times[Phase::kOffload]);
  }
  if (m.skipped) line += " | SKIPPED: nothing was changed";
  return line;
}

}  // namespace weft
