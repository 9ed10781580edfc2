// Plan files. First byte: odd puts the rest into a right frame, so that the fuzzer gets past the
// checksum (of a plan with pipelines when its second bit is set, too); even gives the rest as it
// is.
#include <nlohmann/json.hpp>
#include <sstream>

#include "cost/reference_cost.h"
#include "plan/evaluate.h"
#include "plan/plan_codec.h"
#include "plan/plan_slice.h"
#include "plan/plan_wire.h"
#include "plan/validate.h"
#include "tests/fuzz/fuzz_input.h"

namespace weft::fuzz {
namespace {

constexpr std::int32_t kMostSlices = 16;

void check_json(const StepPlan& plan) {
  std::ostringstream out;
  write_plan_json(out, plan);
  WEFT_CHECK(nlohmann::json::accept(out.str()), "not JSON: {}", out.str());
}

void check_slices(const StepPlan& plan) {
  const Hash128 hash = plan_hash(plan);
  validate(plan, hash);
  for (std::int32_t rank = 0; rank < std::min(plan.num_ranks, kMostSlices); ++rank) {
    const PlanSlice slice = slice_plan(plan, hash, Rank(rank));
    WEFT_CHECK(decode_slice(encode_slice(slice), "slice") == slice, "the slice of rank {}", rank);
  }
}

void check_times(const StepPlan& plan) {
  CostModel cost = reference_cost_7b();
  cost.num_layers = plan.num_layers;
  ClusterSpec cluster = uniform_cluster(plan.num_ranks, plan.num_ranks);
  cluster.pipeline_stages = plan.pipeline_stages;
  cluster.virtual_stages = plan.virtual_stages;
  const auto times = value_or_refusal([&] { return evaluate(plan, cost, cluster); });
  WEFT_CHECK(!times || times->makespan >= Nanoseconds(0), "a makespan of {}", times->makespan);
}

}  // namespace

void run_target(Input input) {
  if (input.empty()) return;
  const bool is_framed = (std::to_integer<int>(input[0]) & 1) != 0;
  const bool has_pipelines = (std::to_integer<int>(input[0]) & 2) != 0;
  input = input.subspan(1);
  std::vector<std::byte> bytes(input.begin(), input.end());
  if (is_framed) {
    bytes = plan_wire::wrap("WEFTPLAN", has_pipelines ? kPipelinePlanVersion : kPlanVersion, input);
  }
  const auto plan = value_or_refusal([&] { return decode_plan(bytes, "fuzz.plan"); });
  if (!plan) return;
  WEFT_CHECK(encode_plan(*plan) == bytes, "a plan that decodes has other bytes");
  const auto is_valid = value_or_refusal([&] {
    validate(*plan);
    return true;
  });
  if (!is_valid) return;
  check_json(*plan);
  check_slices(*plan);
  check_times(*plan);
}

}  // namespace weft::fuzz
