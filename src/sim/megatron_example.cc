#include "sim/megatron_example.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "cluster/cluster_presets.h"
#include "plan/evaluate.h"
#include "plan/lower_bound.h"
#include "plan/plan_builder.h"
#include "plan/validate.h"
#include "sim/megatron_lengths.h"

namespace weft {
namespace {

constexpr Tokens kContext{8192};

// The published times are means of iterations 11 to 30 without the two least and the two most.
constexpr std::int64_t kFirstStep = 10;
constexpr std::int64_t kSteps = 20;
constexpr std::size_t kTrimmed = 2;

// benchmark_dcp.sh: 12 layers of 2048, 16 heads, feed-forward 8192 without a gate (two thirds of a
// gated one's weights).
ModelShape megatron_model() {
  return {.name = "megatron-dcp-example",
          .source = "Megatron-LM examples/dynamic_context_parallel",
          .num_layers = 12,
          .hidden_size = 2048,
          .num_heads = 16,
          .num_kv_heads = 16,
          .head_dim = 128,
          .intermediate_size = 8192 * 2 / 3,
          .vocab_size = 131072};
}

using Pack = std::vector<std::int32_t>;  // sequence_idx

std::vector<Pack> packs_of_arrival(const StepPlan& plan) {
  Pack arrival(plan.sequences.size());
  std::iota(arrival.begin(), arrival.end(), 0);
  const auto sequence = [&](std::int32_t idx) -> const SequenceSpec& {
    return plan.sequences[static_cast<std::size_t>(idx)];
  };
  std::sort(arrival.begin(), arrival.end(),
            [&](std::int32_t a, std::int32_t b) { return sequence(a).id < sequence(b).id; });
  std::vector<Pack> packs;
  Tokens room{0};
  for (const std::int32_t idx : arrival) {
    if (packs.empty() || sequence(idx).tokens > room) {
      packs.emplace_back();
      room = plan.capacity * kMegatronRing;
    }
    packs.back().push_back(idx);
    room -= sequence(idx).tokens;
  }
  return packs;
}

// Until the packs are a multiple of the rings, or every pack is one sequence.
void split_packs(std::size_t num_rings, std::vector<Pack>& packs) {
  std::size_t at = packs.size();
  while (packs.size() % num_rings != 0) {
    while (at > 0 && packs[at - 1].size() < 2) --at;
    if (at == 0) return;
    const std::int32_t last = packs[at - 1].back();
    packs[at - 1].pop_back();
    packs.push_back({last});
  }
}

double trimmed_mean(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto first = values.begin() + kTrimmed;
  const auto last = values.end() - kTrimmed;
  return std::accumulate(first, last, 0.0) / static_cast<double>(last - first);
}

double step_s(const Scenario& scenario, const StepPlan& plan) {
  return look_ahead(scenario, plan, false).step_s;
}

}  // namespace

Scenario megatron_scenario(std::int32_t num_ranks, const MegatronCalibration& calibration) {
  const ClusterDescription cluster = find_cluster("gb200");
  TrainingSetup setup;
  setup.mesh = mesh_of_devices(cluster, num_ranks, 1, 1);
  setup.fixed_ns = calibration.launch_ns;
  Scenario scenario = make_scenario(megatron_model(), cluster, setup);
  scenario.cost.ring_step_fixed_ns += calibration.ring_step_ns;
  return scenario;
}

StepPlan megatron_static_plan(const PlanRequest& request) {
  StepPlan plan;
  plan.strategy = "static, packs in order of arrival";
  plan.num_ranks = request.cluster.num_ranks;
  plan.capacity = request.options.capacity;
  plan.num_layers = request.cost.num_layers;
  plan.sequences = sorted_canonically(request.sequences);
  WEFT_CHECK(plan.num_ranks % kMegatronRing == 0, "{} ranks are no rings of {}", plan.num_ranks,
             kMegatronRing);
  const auto num_rings = static_cast<std::size_t>(plan.num_ranks / kMegatronRing);
  std::vector<Pack> packs = packs_of_arrival(plan);
  split_packs(num_rings, packs);
  PlanBuilder builder(plan);
  for (std::size_t i = 0; i < packs.size(); ++i) {
    std::vector<Rank> ring(kMegatronRing);
    for (std::size_t m = 0; m < ring.size(); ++m)
      ring[m] = Rank(static_cast<std::int64_t>(i % num_rings * ring.size() + m));
    builder.open_slot();
    std::sort(packs[i].begin(), packs[i].end());
    for (const std::int32_t idx : packs[i]) builder.add_shared(idx, ring);
  }
  plan.lower_bound =
      lower_bound(plan.sequences, request.cost, request.cluster, plan.capacity).best();
  plan.makespan = evaluate(plan, request.cost, request.cluster).makespan;
  validate(plan);
  return plan;
}

MegatronTimes megatron_times(std::int32_t num_ranks, const MegatronCalibration& calibration) {
  const Scenario scenario = megatron_scenario(num_ranks, calibration);
  PlanRequest request =
      plan_request(scenario, {.capacity = kMegatronCapacity, .max_context = kContext});
  const auto planned = [&](const char* strategy) {
    request.options.strategy = strategy;
    return step_s(scenario, make_plan(request));
  };
  std::vector<double> of_static;
  std::vector<double> of_pow2;
  std::vector<double> of_hdp;
  for (std::int64_t step = kFirstStep; step < kFirstStep + kSteps; ++step) {
    request.sequences = megatron_sequences(num_ranks, kMegatronRing, step);
    of_static.push_back(step_s(scenario, megatron_static_plan(request)));
    of_pow2.push_back(planned("pow2"));
    of_hdp.push_back(planned("hdp"));
  }
  return {.static_s = trimmed_mean(std::move(of_static)),
          .pow2_s = trimmed_mean(std::move(of_pow2)),
          .hdp_s = trimmed_mean(std::move(of_hdp))};
}

std::vector<PaperClaim> predict_megatron(const MegatronCalibration& calibration) {
  std::vector<PaperClaim> claims;
  for (const MegatronPoint& point : kMegatronDynamic) {
    const MegatronTimes times = megatron_times(point.ranks, calibration);
    const auto add = [&](const char* what, double published, double predicted) {
      claims.push_back(
          {"megatron", fmt::format("{}, {} ranks", what, point.ranks), published, predicted});
    };
    add("static step, ms", point.static_ms, 1e3 * times.static_s);
    add("pow2 step, ms", point.dynamic_ms, 1e3 * times.pow2_s);
    add("pow2 over static", point.static_ms / point.dynamic_ms, times.static_s / times.pow2_s);
    add("hdp over static", 0, times.static_s / times.hdp_s);
  }
  return claims;
}

}  // namespace weft
