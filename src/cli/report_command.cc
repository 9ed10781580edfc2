#include "cli/report_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "cli/program.h"
#include "cost/reference_cost.h"
#include "plan/plan_codec.h"
#include "report/plan_trace.h"
#include "report/report_page.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

struct ReportFlags {
  std::vector<std::string> folders;
  std::vector<std::string> plans;
  std::vector<std::string> timelines;
  std::string cost;
  std::string out;
  std::string chrome_trace;
  std::int64_t num_steps = 4;
  std::int32_t ranks_per_node = 8;
};

// The cost that a run's plans were made with, unless --cost names another.
CostModel cost_of_run(const ReportFlags& flags, const fs::path& folder) {
  if (!flags.cost.empty()) return load_cost_model(flags.cost);
  WEFT_USER_CHECK(
      fs::exists(folder / "cost.json"),
      "report: '{}' has plans but no cost.json to price them with; give --cost FILE, or "
      "--steps 0 to leave its plans out",
      folder.string());
  return load_cost_model(folder / "cost.json");
}

// The plan that the metrics of its step name.
void check_hash(const RunView& run, PlanView& plan) {
  const auto& steps = run.metrics.steps;
  const auto at = std::lower_bound(steps.begin(), steps.end(), plan.step);
  if (at == steps.end() || *at != plan.step) {
    plan.notes.push_back(fmt::format(
        "metrics.jsonl has no line for step {}: it did not run, or not to its end.", plan.step));
  } else if (run.metrics.plan_hashes[static_cast<std::size_t>(at - steps.begin())] != plan.hash) {
    plan.notes.push_back(
        fmt::format("Step {} ran another plan: metrics.jsonl names {}.", plan.step,
                    run.metrics.plan_hashes[static_cast<std::size_t>(at - steps.begin())]));
  }
}

// A folder's own name, or its path where several have the same.
std::string name_of(const ReportFlags& flags, const fs::path& folder) {
  const auto own_name = [](const fs::path& path) {
    const fs::path whole = fs::weakly_canonical(path);
    return whole.has_filename() ? whole.filename() : whole.parent_path().filename();
  };
  const auto count =
      std::count_if(flags.folders.begin(), flags.folders.end(),
                    [&](const std::string& other) { return own_name(other) == own_name(folder); });
  return count > 1 ? folder.string() : own_name(folder).string();
}

void add_run(const ReportFlags& flags, const fs::path& folder, Report& report) {
  RunView run = read_run(folder);
  run.name = name_of(flags, folder);
  const auto files = spread(run.plan_files, flags.num_steps);
  if (files.size() < run.plan_files.size() && !files.empty()) {
    run.notes.push_back(fmt::format("{} of {} plans are shown (--steps {}).", files.size(),
                                    run.plan_files.size(), flags.num_steps));
  }
  std::optional<CostModel> cost;
  if (!files.empty()) cost = cost_of_run(flags, folder);
  for (const fs::path& file : files) {
    const StepPlan plan = load_plan(file);
    // The trainer plans for ranks of one node.
    report.plans.push_back(
        view_plan(plan, *cost, fmt::format("{}, step {}", run.name, plan.step), plan.num_ranks));
    check_hash(run, report.plans.back());
  }
  report.runs.push_back(std::move(run));
}

// A file's name without its ending, or its path where several have the same.
std::string name_of_file(const std::vector<std::string>& files, const fs::path& file) {
  const auto count = std::count_if(files.begin(), files.end(), [&](const std::string& other) {
    return fs::path(other).stem() == file.stem();
  });
  return count > 1 ? file.string() : file.stem().string();
}

Timeline read_timeline(const std::string& file) {
  try {
    return load_timeline(file);
  } catch (const UserError& error) {
    throw UserError(fmt::format(
        "{}; --timeline takes what weft simulate --timeline saved (plans: --plan)", error.what()));
  }
}

std::string title_of(const Report& report) {
  std::vector<std::string> names;
  for (const RunView& run : report.runs) names.push_back(run.name);
  if (names.empty()) {
    for (const PlanView& plan : report.plans) names.push_back(plan.name);
  }
  if (names.empty()) {
    for (const TimelineView& timeline : report.timelines) names.push_back(timeline.name);
  }
  return fmt::format("{} - Weft report", fmt::join(names, ", "));
}

void write_trace(const ReportFlags& flags, const Report& report) {
  WEFT_USER_CHECK(report.plans.size() == 1,
                  "report: --chrome-trace shows one plan, but {} are given; use one --plan, or one "
                  "run with --steps 1 (weft simulate --trace writes a simulated step's)",
                  report.plans.size());
  std::ostringstream text;
  write_plan_trace(text, report.plans.front());
  write_file_atomically(flags.chrome_trace, text.str());
}

void run_report(const ReportFlags& flags) {
  WEFT_USER_CHECK(!flags.folders.empty() || !flags.plans.empty() || !flags.timelines.empty(),
                  "report: nothing to show; name run folders (train.out), plans (--plan FILE) or "
                  "simulated steps (--timeline FILE)");
  WEFT_USER_CHECK(!flags.out.empty() || !flags.chrome_trace.empty(),
                  "report: --out FILE is missing");
  Report report{.version = version_text("weft")};
  for (const std::string& folder : flags.folders) add_run(flags, folder, report);
  if (!flags.plans.empty()) {
    const CostModel cost = flags.cost.empty() ? reference_cost_7b() : load_cost_model(flags.cost);
    for (const std::string& file : flags.plans) {
      report.plans.push_back(
          view_plan(load_plan(file), cost, name_of_file(flags.plans, file), flags.ranks_per_node));
    }
  }
  for (const std::string& file : flags.timelines) {
    report.timelines.push_back(
        view_timeline(read_timeline(file), name_of_file(flags.timelines, file)));
  }
  report.title = title_of(report);
  if (!flags.chrome_trace.empty()) write_trace(flags, report);
  if (flags.out.empty()) return;
  write_file_atomically(flags.out, report_page(report));
  fmt::print("wrote   {}: {} runs, {} plans, {} Timelines\n", flags.out, report.runs.size(),
             report.plans.size(), report.timelines.size());
}

}  // namespace

void add_report_command(CLI::App& app) {
  auto flags = std::make_shared<ReportFlags>();
  CLI::App* report = app.add_subcommand(
      "report", "One HTML page, readable without a network, from runs, plans and Timelines");
  report->add_option("runs", flags->folders, "Folders of runs (train.out), shown side by side")
      ->type_name("OUT...");
  report->add_option("--plan", flags->plans, "A plan that weft plan --out saved; may be repeated")
      ->type_name("FILE");
  report
      ->add_option("--timeline", flags->timelines,
                   "A step that weft simulate --timeline saved; may be repeated")
      ->type_name("FILE");
  report
      ->add_option("--cost", flags->cost,
                   "Cost file that prices the plans (default: OUT/cost.json for a run's plans, the "
                   "reference cost for --plan)")
      ->type_name("FILE");
  report
      ->add_option("--ranks-per-node", flags->ranks_per_node,
                   "With --plan: ranks that share a node, for a cost with node hops (default: 8)")
      ->check(CLI::PositiveNumber)
      ->type_name("N");
  report
      ->add_option("--steps", flags->num_steps,
                   "Show at most N of a run's saved plans, evenly spread (default: 4)")
      ->check(CLI::Range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()))
      ->type_name("N");
  report->add_option("--out", flags->out, "The page to write")->type_name("FILE");
  report
      ->add_option("--chrome-trace", flags->chrome_trace,
                   "Also write the one plan as a Chrome trace (JSON)")
      ->type_name("FILE");
  report->callback([flags] { run_report(*flags); });
}

}  // namespace weft
