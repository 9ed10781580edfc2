#include "cli/plan_command.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "cli/plan_explain.h"
#include "cli/plan_input.h"
#include "cli/plan_report.h"
#include "plan/plan_codec.h"
#include "plan/planner.h"

namespace weft {
namespace {

struct OutputFlags {
  std::string out;
  std::optional<std::int64_t> explained;  // id of a sequence
  std::int64_t num_batches = 1;
  bool is_json = false;
  bool is_summary = false;
  bool is_comparison = false;
};

// Plans `num_batches` steps by each of the strategies: a row or an object each.
void summarize(const PlanFlags& flags, const OutputFlags& output, PlanRequest& request,
               std::span<const std::string> strategies) {
  std::vector<PlanSummary> summaries(strategies.begin(), strategies.end());
  for (std::int64_t batch = 0; batch < output.num_batches; ++batch) {
    request.sequences = sequences_of_step(flags, request, flags.step + batch);
    request.options.step = flags.step + batch;
    for (std::size_t s = 0; s < strategies.size(); ++s)
      summaries[s].add(plan_with(request, strategies[s]), request.cost);
  }
  if (!output.is_summary) fmt::print("{}\n", PlanSummary::header());
  for (const PlanSummary& summary : summaries)
    fmt::print("{}\n", output.is_summary ? summary.json() : summary.row());
}

void run_plan(const PlanFlags& flags, const OutputFlags& output) {
  PlanRequest request = request_without_sequences(flags);
  const bool is_all = output.is_comparison || flags.strategy == "all";
  if (is_all || output.is_summary || output.num_batches > 1) {
    WEFT_USER_CHECK(
        !output.is_json && output.out.empty() && !output.explained,
        "plan: --json, --out and --explain need one strategy and one batch; not --strategy all, "
        "--compare, --summary-json or --batches");
    WEFT_USER_CHECK(!output.is_summary || !is_all,
                    "plan: --summary-json prints one object; name one --strategy");
    if (is_all) return summarize(flags, output, request, strategy_names());
    return summarize(flags, output, request, std::span(&flags.strategy, 1));
  }
  request.sequences = sequences_of_step(flags, request, flags.step);
  const MadePlan made = plan_with(request, flags.strategy);
  std::optional<SequenceExplanation> about;
  if (output.explained) {
    about = explain_sequence(made.plan, made.evaluation, request.cost, request.cluster,
                             *output.explained);
  }
  if (!output.out.empty()) save_plan(output.out, made.plan);
  if (output.is_json) {
    write_plan_json(std::cout, made.plan, about ? explanation_json_member(*about) : "");
    std::cout.flush();
  } else if (about) {
    print_explanation(*about, made.plan);
  } else {
    print_plan(made, request.cost);
  }
}

}  // namespace

void add_plan_command(CLI::App& app) {
  auto flags = std::make_shared<PlanFlags>();
  auto output = std::make_shared<OutputFlags>();
  CLI::App* plan =
      app.add_subcommand("plan", "Plan steps and show their predicted time, bound and balance");
  add_input_flags(*plan, *flags);
  plan->add_option("--strategy", flags->strategy,
                   fmt::format("{}, or all to compare them (default: hdp)",
                               fmt::join(strategy_names(), ", ")))
      ->type_name("NAME");
  plan->add_option("--batches", output->num_batches,
                   "Plan this many steps, from --step on, and print means (default: 1)")
      ->check(CLI::Range(std::int64_t{1}, std::numeric_limits<std::int64_t>::max()))
      ->type_name("N");
  plan->add_flag("--compare", output->is_comparison, "All strategies side by side (default: off)");
  plan->add_flag("--summary-json", output->is_summary,
                 "One JSON object with the figures of all batches (default: off)");
  plan->add_option("--explain", output->explained,
                   "Say why the sequence with this id got its degree and ranks; with --json as a "
                   "member of the plan")
      ->type_name("SEQUENCE");
  plan->add_option("--out", output->out, "Save the plan; weft train --plan replays it")
      ->type_name("FILE");
  plan->add_flag("--json", output->is_json, "Print the plan as JSON (default: off)");
  plan->callback([flags, output] { run_plan(*flags, *output); });
}

}  // namespace weft
