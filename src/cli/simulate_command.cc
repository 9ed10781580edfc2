#include "cli/simulate_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/log.h"
#include "cli/paper_report.h"
#include "cli/simulate_input.h"
#include "cli/simulate_measured.h"
#include "cli/simulate_report.h"
#include "plan/planner.h"

namespace weft {
namespace {

// The paper averages 200. With 3 the longest sequences, few in a step, are a matter of luck.
constexpr std::int64_t kPaperSteps = 16;

struct OutputFlags {
  bool is_json = false;
  bool is_csv = false;
  bool is_paper = false;
  std::string timeline;
  std::string trace;
};

std::span<const std::string> strategies_of(const SimulateFlags& flags) {
  return flags.strategy == "all" ? strategy_names() : std::span(&flags.strategy, 1);
}

PlanOptions plan_options(const SimulateFlags& flags, const SimulationCase& input) {
  return {.capacity = input.capacity,
          .max_context =
              parse_tokens(flags.sequences.max_context.empty() ? flags.sequences.context
                                                               : flags.sequences.max_context,
                           flags.sequences.max_context.empty() ? "--context" : "--max-context", 0),
          .seed = flags.sequences.seed};
}

void save_events(const OutputFlags& output, const Timeline& timeline) {
  if (!output.timeline.empty()) save_timeline(output.timeline, timeline);
  if (!output.trace.empty()) save_chrome_trace(output.trace, timeline);
}

CaseOutlook simulate_case(const SimulateFlags& flags, const OutputFlags& output) {
  CaseOutlook outlook{.input = simulation_case(flags)};
  PlanRequest request = plan_request(outlook.input.scenario, plan_options(flags, outlook.input));
  const std::span<const std::string> strategies = strategies_of(flags);
  for (const std::string& strategy : strategies) {
    outlook.strategies.emplace_back();
    outlook.strategies.back().strategy = strategy;
  }
  for (std::int64_t batch = 0; batch < std::max<std::int64_t>(1, flags.num_batches); ++batch) {
    const std::int64_t step = flags.sequences.step + batch;
    request.sequences = some_sequences_of_step(flags.sequences, request, step);
    request.options.step = step;
    if (batch == 0) {
      outlook.num_sequences = static_cast<std::int64_t>(request.sequences.size());
      for (const SequenceSpec& sequence : request.sequences) {
        outlook.num_tokens += sequence.tokens.value();
        outlook.longest = std::max(outlook.longest, sequence.tokens.value());
      }
    }
    for (StrategyOutlook& strategy : outlook.strategies) {
      request.options.strategy = strategy.strategy;
      request.options.offload = flags.offload && strategy.strategy == "hdp";
      const bool keep_events = !output.timeline.empty() || !output.trace.empty();
      const StepOutlook result =
          look_ahead(outlook.input.scenario, make_plan(request), keep_events);
      if (keep_events) save_events(output, result.timeline);
      strategy.add(result);
    }
  }
  for (StrategyOutlook& strategy : outlook.strategies) strategy.finish();
  sort_best_first(outlook.strategies);
  return outlook;
}

void print_sweep_point(const std::vector<std::string>& keys, const SweepPoint& point,
                       const CaseOutlook& outlook, bool is_csv) {
  if (!is_csv)  // the best of them
    return fmt::print("{}\n", sweep_row(keys, point.values, outlook.strategies.front()));
  for (const StrategyOutlook& strategy : outlook.strategies)
    fmt::print("{}\n", sweep_csv(point.values, strategy));
}

// Values that do not go together take one point from a sweep, not the points after it.
void simulate_sweep(const SimulateFlags& flags, const OutputFlags& output) {
  const std::vector<std::string> keys = sweep_keys(flags);
  const std::vector<SweepPoint> points = sweep_points(flags);
  fmt::print("{}\n", output.is_csv ? sweep_csv_header(keys) : sweep_header(keys));
  std::size_t num_impossible = 0;
  std::string first_reason;
  for (const SweepPoint& point : points) {
    try {
      print_sweep_point(keys, point, simulate_case(point.flags, output), output.is_csv);
    } catch (const UserError& error) {
      if (++num_impossible == 1) first_reason = error.what();
      fmt::print("{}\n", output.is_csv ? impossible_csv(point.values, error.what())
                                       : impossible_row(keys, point.values, error.what()));
    }
    std::fflush(stdout);
  }
  WEFT_USER_CHECK(num_impossible < points.size(),
                  "--sweep: none of the {} combinations is possible; the first: {}", points.size(),
                  first_reason);
}

void check_sources(const SimulateFlags& flags) {
  WEFT_USER_CHECK(!flags.sequences.workload.empty() || !flags.sequences.lengths.empty() ||
                      !flags.sequences.corpus.empty(),
                  "simulate: give one of --workload, --lengths and --corpus");
}

void check_flags(const SimulateFlags& flags, const OutputFlags& output) {
  WEFT_USER_CHECK(!flags.model.empty(),
                  "simulate: --model is missing (or give --cost alone, or --paper)");
  WEFT_USER_CHECK(!flags.cluster.empty(), "simulate: --cluster is missing");
  check_sources(flags);
  WEFT_USER_CHECK(!output.is_json || !output.is_csv, "simulate: give one of --json and --csv");
  WEFT_USER_CHECK(!output.is_json || flags.sweep.empty(),
                  "simulate: --sweep prints a table or --csv, not --json");
  WEFT_USER_CHECK((output.timeline.empty() && output.trace.empty()) ||
                      (flags.strategy != "all" && flags.num_batches <= 1 && flags.sweep.empty()),
                  "simulate: --timeline and --trace need one --strategy and one step; not "
                  "--strategy all, --batches or --sweep");
  WEFT_USER_CHECK(!flags.offload || flags.strategy == "all" || flags.strategy == "hdp",
                  "simulate: strategy '{}' does not offload; use hdp, or leave out --offload",
                  flags.strategy);
}

// A flag that is given, even at its default, and not among those that this way of running uses is
// an error, not ignored. Asked of the parser, so that no flag is forgotten here; `reason` goes on
// from the flag's name.
void check_unused(const CLI::App& simulate, std::span<const std::string_view> used,
                  std::string_view before, std::string_view reason) {
  const auto check = [&](const CLI::App& owner) {
    for (const CLI::Option* option : owner.get_options()) {
      const std::string name = option->get_name();
      const bool is_used = std::find(used.begin(), used.end(), name) != used.end();
      WEFT_USER_CHECK(option->count() == 0 || is_used, "simulate: {}{}{}", before, name, reason);
    }
  };
  check(simulate);
  // An option group is a subcommand without a name.
  for (const CLI::App* group :
       simulate.get_subcommands([](const CLI::App* app) { return app->get_name().empty(); }))
    check(*group);
}

// The paper's runs are fixed.
void check_paper_flags(const CLI::App& simulate) {
  constexpr std::array<std::string_view, 3> kUsed{"--paper", "--batches", "--json"};
  check_unused(simulate, kUsed, "--paper simulates the paper's own runs and does not use ",
               "; only --batches and --json go with it");
}

// The rest only a model's shape or a cluster's description can answer.
void check_measured_flags(const CLI::App& simulate) {
  constexpr std::array<std::string_view, 17> kUsed{"--cost",
                                                   "--ranks",
                                                   "--ranks-per-node",
                                                   "--capacity",
                                                   "--strategy",
                                                   "--offload",
                                                   "--lengths",
                                                   "--corpus",
                                                   "--workload",
                                                   "--context",
                                                   "--step",
                                                   "--seed",
                                                   "--max-context",
                                                   "--global-batch-tokens",
                                                   "--over-long",
                                                   "--batches",
                                                   "--json"};
  check_unused(simulate, kUsed, "", " needs --model and --cluster as well");
}

void run_measured(const CLI::App& simulate, const SimulateFlags& flags, const OutputFlags& output) {
  check_measured_flags(simulate);
  check_sources(flags);
  const std::vector<MeasuredStep> steps = simulate_measured(flags);
  if (output.is_json) {
    fmt::print("{}\n", measured_json(flags, steps));
  } else {
    print_measured(flags, steps);
  }
}

void run_simulate(const CLI::App& simulate, const SimulateFlags& flags, const OutputFlags& output) {
  if (output.is_paper) {
    check_paper_flags(simulate);
    return run_paper(flags.num_batches == 0 ? kPaperSteps : flags.num_batches, output.is_json);
  }
  if (flags.model.empty() && flags.cluster.empty() && !flags.cost.empty())
    return run_measured(simulate, flags, output);
  check_flags(flags, output);
  if (!flags.sweep.empty()) return simulate_sweep(flags, output);
  const CaseOutlook outlook = simulate_case(flags, output);
  if (output.is_json) {
    fmt::print("{}\n", case_json(outlook));
  } else if (output.is_csv) {
    fmt::print("{}\n", outlook_csv_header());
    for (const StrategyOutlook& strategy : outlook.strategies)
      fmt::print("{}\n", outlook_csv(strategy));
  } else {
    print_case(outlook);
  }
}

}  // namespace

void add_simulate_command(CLI::App& app) {
  auto flags = std::make_shared<SimulateFlags>();
  auto output = std::make_shared<OutputFlags>();
  CLI::App* simulate =
      app.add_subcommand("simulate", "Simulate steps of a model on a cluster that need not exist");
  add_simulate_flags(*simulate, *flags);
  simulate->add_flag("--json", output->is_json, "Print one JSON object (default: off)");
  simulate->add_flag("--csv", output->is_csv, "Print comma-separated rows (default: off)");
  simulate->add_flag("--paper", output->is_paper,
                     "Predict ByteScale's published figures instead (default: off)");
  simulate->add_option("--timeline", output->timeline, "Save what every device does, as JSON")
      ->type_name("FILE");
  simulate->add_option("--trace", output->trace, "Save it for chrome://tracing or Perfetto")
      ->type_name("FILE");
  simulate->callback([simulate, flags, output] { run_simulate(*simulate, *flags, *output); });
}

}  // namespace weft
