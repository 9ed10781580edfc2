#include "cli/plan_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "corpus/corpus.h"
#include "corpus/data_order.h"
#include "corpus/sequence_set.h"
#include "cost/reference_cost.h"
#include "plan/evaluate.h"
#include "plan/plan_codec.h"
#include "plan/planner.h"

namespace weft {
namespace {

constexpr std::int32_t kMostRanksInTable = 16;

struct PlanFlags {
  std::string lengths;
  std::string corpus;
  std::int32_t num_ranks = 0;
  std::string capacity;
  std::string max_context;          // "": the longest sequence (static), ranks * capacity (corpus)
  std::string global_batch_tokens;  // "": everything (lengths only)
  std::string over_long = "error";
  std::string strategy = "hdp";
  std::string weighting = "token";
  std::string cost;  // "": the reference cost
  std::string out;
  std::int64_t step = 0;
  std::uint64_t seed = 0;
  bool is_json = false;
};

Tokens parse_tokens(const std::string& text, std::string_view what, std::int64_t otherwise) {
  if (text.empty()) return Tokens(otherwise);
  const std::int64_t count = parse_count(text, what);
  WEFT_USER_CHECK(count >= 1 && count <= kMostTokens.value(), "{} is {}, expected 1 to {} tokens",
                  what, text, kMostTokens);
  return Tokens(count);
}

// One integer a line; blank lines and "# ..." do not count. A target for every token but a
// sequence's last.
std::vector<SequenceSpec> read_lengths(const std::string& path) {
  const std::string text = read_text_file(path);
  std::vector<SequenceSpec> sequences;
  std::size_t line_number = 0;
  for (std::size_t begin = 0; begin < text.size(); ++line_number) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    line = line.substr(0, line.find('#'));
    const std::size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string_view::npos) continue;
    line = line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
    std::int64_t tokens = 0;
    const auto [stop, error] = std::from_chars(line.data(), line.data() + line.size(), tokens);
    WEFT_USER_CHECK(error == std::errc() && stop == line.data() + line.size() && tokens >= 1 &&
                        tokens < std::int64_t{1} << 32,
                    "lengths file '{}', line {}: '{}' is not a length; expected one integer from 1 "
                    "to 4294967295",
                    path, line_number + 1, line);
    sequences.push_back({.id = static_cast<std::int64_t>(sequences.size()),
                         .tokens = Tokens(tokens),
                         .num_targets = tokens - 1});
  }
  return sequences;
}

// Step `step` when steps take whole sequences in order until the next would exceed the batch.
std::vector<SequenceSpec> take_step(const std::vector<SequenceSpec>& sequences, std::int64_t step,
                                    Tokens batch) {
  std::vector<SequenceSpec> taken;
  Tokens tokens;
  std::int64_t current = 0;
  for (const SequenceSpec& sequence : sequences) {
    WEFT_USER_CHECK(
        sequence.tokens <= batch,
        "plan: sequence {} has {} tokens, more than a whole step (--global-batch-tokens {})",
        sequence.id, sequence.tokens, batch);
    if (tokens + sequence.tokens > batch) {
      if (current == step) return taken;
      ++current;
      taken.clear();
      tokens = Tokens(0);
    }
    taken.push_back(sequence);
    tokens += sequence.tokens;
  }
  WEFT_USER_CHECK(current == step, "plan: --step {}, but the lengths make only {} steps", step,
                  current + 1);
  return taken;
}

std::vector<SequenceSpec> sequences_of_corpus(const PlanFlags& flags, Tokens max_context) {
  WEFT_USER_CHECK(!flags.global_batch_tokens.empty(), "plan: --corpus needs --global-batch-tokens");
  const Corpus corpus(flags.corpus);
  const SequenceSet set(corpus, max_context, parse_over_long(flags.over_long, "--over-long"));
  DataOrder order(set, {.seed = flags.seed,
                        .global_batch_tokens =
                            parse_tokens(flags.global_batch_tokens, "--global-batch-tokens", 0)});
  for (std::int64_t step = 0; step < flags.step; ++step) order.next_step();
  std::vector<SequenceSpec> sequences;
  for (const OrderedSequence& sequence : order.next_step()) {
    sequences.push_back(
        {.id = sequence.id, .tokens = sequence.tokens, .num_targets = sequence.num_targets});
  }
  return sequences;
}

PlanRequest request_of(const PlanFlags& flags) {
  PlanRequest request;
  request.cluster = uniform_cluster(flags.num_ranks, flags.num_ranks);
  request.cost = flags.cost.empty() ? reference_cost_7b() : load_cost_model(flags.cost);
  request.options = {.strategy = flags.strategy,
                     .capacity = parse_tokens(flags.capacity, "--capacity", 0),
                     .max_context = parse_tokens(flags.max_context, "--max-context", 0),
                     .weighting = parse_loss_weighting(flags.weighting, "--weighting"),
                     .step = flags.step,
                     .seed = flags.seed};
  const Tokens all_ranks = request.options.capacity * flags.num_ranks;
  if (flags.corpus.empty()) {
    std::vector<SequenceSpec> all = read_lengths(flags.lengths);
    Tokens total;
    for (const SequenceSpec& sequence : all) total += sequence.tokens;
    const Tokens batch = parse_tokens(flags.global_batch_tokens, "--global-batch-tokens",
                                      std::max<std::int64_t>(1, total.value()));
    request.sequences = take_step(all, flags.step, batch);
  } else {
    request.sequences = sequences_of_corpus(
        flags, flags.max_context.empty() ? all_ranks : request.options.max_context);
  }
  return request;
}

struct MadePlan {
  StepPlan plan;
  Evaluation evaluation;
  Nanoseconds planning_time;
};

MadePlan plan_with(PlanRequest request, const std::string& strategy) {
  request.options.strategy = strategy;
  const auto start = std::chrono::steady_clock::now();
  MadePlan made;
  made.plan = make_plan(request);
  made.planning_time = Nanoseconds(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start)
          .count());
  made.evaluation = evaluate(made.plan, request.cost, request.cluster);
  return made;
}

std::int64_t count_micro_batches(const Evaluation& evaluation) {
  std::int64_t count = 0;
  for (const RankTime& rank : evaluation.ranks) count += rank.num_micro_batches;
  return count;
}

void print_rank(const std::string& label, const RankTime& rank, Nanoseconds makespan) {
  fmt::print("  {:>10} {:>13} {:>11} {:>17} {:>10} {:>10} {:>10}\n", label, rank.num_micro_batches,
             rank.tokens, rank.work, format_duration(rank.busy), format_duration(rank.finish),
             format_duration(makespan - rank.busy));
}

void print_ranks(const Evaluation& evaluation) {
  fmt::print("\n  {:>10} {:>13} {:>11} {:>17} {:>10} {:>10} {:>10}\n", "rank", "micro-batches",
             "tokens", "work (pairs)", "busy", "finish", "idle");
  if (evaluation.ranks.size() <= static_cast<std::size_t>(kMostRanksInTable)) {
    for (std::size_t r = 0; r < evaluation.ranks.size(); ++r) {
      print_rank(std::to_string(r), evaluation.ranks[r], evaluation.makespan);
    }
    return;
  }
  std::vector<std::size_t> by_busy(evaluation.ranks.size());
  for (std::size_t r = 0; r < by_busy.size(); ++r) by_busy[r] = r;
  std::stable_sort(by_busy.begin(), by_busy.end(), [&](std::size_t a, std::size_t b) {
    return evaluation.ranks[a].busy < evaluation.ranks[b].busy;
  });
  const std::size_t last = by_busy.size() - 1;
  for (const auto& [label, at] : {std::pair<const char*, std::size_t>{"idlest", 0},
                                  {"p25", last / 4},
                                  {"p50", last / 2},
                                  {"p75", last * 3 / 4},
                                  {"p99", last * 99 / 100},
                                  {"busiest", last}}) {
    print_rank(fmt::format("{} {}", label, by_busy[at]), evaluation.ranks[by_busy[at]],
               evaluation.makespan);
  }
}

void print_plan(const MadePlan& made, const CostModel& cost) {
  const StepPlan& plan = made.plan;
  const Evaluation& evaluation = made.evaluation;
  Tokens tokens;
  for (const SequenceSpec& sequence : plan.sequences) tokens += sequence.tokens;
  fmt::print("strategy       {}\n", plan.strategy);
  fmt::print("step           {}: {} sequences, {} tokens, longest {}\n", plan.step,
             plan.sequences.size(), tokens,
             plan.sequences.empty() ? Tokens(0) : plan.sequences.front().tokens);
  fmt::print("ranks          {} with a capacity of {} tokens\n", plan.num_ranks,
             format_count(plan.capacity.value()));
  fmt::print("groups         {} (largest degree {}), {} sequences shared\n", plan.groups.size(),
             evaluation.max_degree, evaluation.sharded_sequences);
  fmt::print("slots          {} with {} micro-batches\n", plan.num_slots,
             count_micro_batches(evaluation));
  fmt::print("makespan       {} predicted (cost: {})\n", format_duration(plan.makespan), cost.name);
  fmt::print("lower bound    {} (gap {:.2f} %)\n", format_duration(plan.lower_bound),
             100 * plan.gap());
  fmt::print("exchange       {} tokens of K and V sent per layer forward\n",
             evaluation.exchange_tokens);
  fmt::print("imbalance      {:.3f} (largest / mean busy time), idle {:.1f} %\n",
             evaluation.imbalance, 100 * evaluation.idle_share);
  fmt::print("planning took  {}\n", format_duration(made.planning_time));
  fmt::print("plan hash      {}\n", plan_hash(plan).hex());
  print_ranks(evaluation);
}

void print_comparison(const PlanRequest& request) {
  fmt::print("{:<10} {:>11} {:>11} {:>8} {:>9} {:>8} {:>10} {:>7} {:>14} {:>10}\n", "strategy",
             "makespan", "bound", "gap %", "imbalance", "idle %", "shared", "degree", "K,V sent",
             "planning");
  for (const std::string& strategy : strategy_names()) {
    const MadePlan made = plan_with(request, strategy);
    const Evaluation& evaluation = made.evaluation;
    fmt::print("{:<10} {:>11} {:>11} {:>8.2f} {:>9.3f} {:>8.1f} {:>10} {:>7} {:>14} {:>10}\n",
               strategy, format_duration(made.plan.makespan),
               format_duration(made.plan.lower_bound), 100 * made.plan.gap(), evaluation.imbalance,
               100 * evaluation.idle_share, evaluation.sharded_sequences, evaluation.max_degree,
               evaluation.exchange_tokens, format_duration(made.planning_time));
  }
}

void run_plan(const PlanFlags& flags) {
  const PlanRequest request = request_of(flags);
  if (flags.strategy == "all") {
    WEFT_USER_CHECK(!flags.is_json && flags.out.empty(),
                    "plan: --strategy all compares plans; --json and --out need one strategy");
    return print_comparison(request);
  }
  const MadePlan made = plan_with(request, flags.strategy);
  if (!flags.out.empty()) save_plan(flags.out, made.plan);
  if (flags.is_json) {
    write_plan_json(std::cout, made.plan);
    std::cout.flush();
  } else {
    print_plan(made, request.cost);
  }
}

}  // namespace

void add_plan_command(CLI::App& app) {
  auto flags = std::make_shared<PlanFlags>();
  CLI::App* plan =
      app.add_subcommand("plan", "Plan one step and show its predicted time, bound and balance");
  auto* source = plan->add_option_group("input", "where the sequences come from");
  source
      ->add_option("--lengths", flags->lengths,
                   "File with one sequence length (tokens) a line; # starts a comment")
      ->type_name("FILE");
  source->add_option("--corpus", flags->corpus, "Corpus directory")->type_name("DIR");
  source->require_option(1);
  plan->add_option("--ranks", flags->num_ranks, "Ranks of the HDP axis")
      ->required()
      ->type_name("N");
  plan->add_option("--capacity", flags->capacity,
                   "Tokens that a rank holds in one micro-batch, such as 8K")
      ->required()
      ->type_name("TOKENS");
  plan->add_option("--max-context", flags->max_context,
                   "Longest sequence of the run: sizes the mesh of 'static' (default: the longest "
                   "given), and is "
                   "where --over-long applies with --corpus (default: ranks * capacity)")
      ->type_name("TOKENS");
  plan->add_option("--global-batch-tokens", flags->global_batch_tokens,
                   "Most tokens of one step, such as 32M (default with --lengths: everything)")
      ->type_name("TOKENS");
  plan->add_option("--over-long", flags->over_long,
                   "With --corpus, a document above --max-context: error or split (default: error)")
      ->type_name("POLICY");
  plan->add_option("--step", flags->step, "Which step to plan, from 0 (default: 0)")
      ->check(CLI::NonNegativeNumber)
      ->type_name("K");
  plan->add_option("--seed", flags->seed, "Seed of the data order (default: 0)")->type_name("SEED");
  plan->add_option("--strategy", flags->strategy,
                   "static, hdp-naive, hdp, or all to compare them (default: hdp)")
      ->type_name("NAME");
  plan->add_option("--weighting", flags->weighting,
                   "Weight of a target in the loss: token or sample (default: token)")
      ->type_name("MODE");
  plan->add_option("--cost", flags->cost,
                   "Cost file (default: the reference cost of a 7B model, reference-7b)")
      ->type_name("FILE");
  plan->add_option("--out", flags->out, "Save the plan; weft train --plan replays it")
      ->type_name("FILE");
  plan->add_flag("--json", flags->is_json, "Print the plan as JSON (default: off)");
  plan->callback([flags] { run_plan(*flags); });
}

}  // namespace weft
