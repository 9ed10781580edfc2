#include "cli/plan_input.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <limits>

#include "base/error.h"
#include "base/random.h"
#include "corpus/corpus.h"
#include "corpus/data_order.h"
#include "corpus/sequence_set.h"
#include "corpus/workload.h"
#include "cost/reference_cost.h"

namespace weft {
namespace {

// A target for every token but a sequence's last.
std::vector<SequenceSpec> specs_of(const std::vector<std::int64_t>& lengths) {
  std::vector<SequenceSpec> sequences;
  sequences.reserve(lengths.size());
  for (const std::int64_t tokens : lengths) {
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

std::vector<SequenceSpec> sequences_of_corpus(const PlanFlags& flags, Tokens max_context,
                                              std::int64_t step) {
  WEFT_USER_CHECK(!flags.global_batch_tokens.empty(), "plan: --corpus needs --global-batch-tokens");
  const Corpus corpus(flags.corpus);
  const SequenceSet set(corpus, max_context, parse_over_long(flags.over_long, "--over-long"));
  DataOrder order(set, {.seed = flags.seed,
                        .global_batch_tokens =
                            parse_tokens(flags.global_batch_tokens, "--global-batch-tokens", 0)});
  for (std::int64_t before = 0; before < step; ++before) order.next_step();
  std::vector<SequenceSpec> sequences;
  for (const OrderedSequence& sequence : order.next_step()) {
    sequences.push_back(
        {.id = sequence.id, .tokens = sequence.tokens, .num_targets = sequence.num_targets});
  }
  return sequences;
}

double parse_real(std::string_view text, std::string_view flag, const std::string& whole) {
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  WEFT_USER_CHECK(error == std::errc() && stop == text.data() + text.size(),
                  "{} is '{}': '{}' is not a number", flag, whole, text);
  return value;
}

// "LOW:HIGH" -> one value for each rank, uniform between them.
std::vector<double> draw_between(const std::string& text, std::string_view flag,
                                 const PlanFlags& flags) {
  if (text.empty()) return {};
  const std::size_t colon = text.find(':');
  WEFT_USER_CHECK(colon != std::string::npos, "{} is '{}', expected LOW:HIGH such as 0.6:1", flag,
                  text);
  const double low = parse_real(std::string_view(text).substr(0, colon), flag, text);
  const double high = parse_real(std::string_view(text).substr(colon + 1), flag, text);
  WEFT_USER_CHECK(low >= 0 && low <= high, "{} is '{}', expected 0 <= LOW <= HIGH", flag, text);
  const RandomStream random(flags.seed, flag);
  std::vector<double> values;
  for (std::int32_t rank = 0; rank < flags.num_ranks; ++rank) {
    values.push_back(low + (high - low) * random.uniform(static_cast<std::uint64_t>(rank)));
  }
  return values;
}

std::size_t checked_rank(std::int64_t rank, std::string_view flag, const PlanFlags& flags) {
  WEFT_USER_CHECK(rank >= 0 && rank < flags.num_ranks, "{} names rank {}, expected 0 to {}", flag,
                  rank, flags.num_ranks - 1);
  return static_cast<std::size_t>(rank);
}

ClusterSpec cluster_of(const PlanFlags& flags) {
  WEFT_USER_CHECK(flags.num_ranks >= 1 && flags.num_ranks <= kMostRanks,
                  "plan: --ranks is {}, expected 1 to {}", flags.num_ranks, kMostRanks);
  ClusterSpec cluster = uniform_cluster(flags.num_ranks, flags.ranks_per_node);
  cluster.speed = draw_between(flags.speeds, "--speeds", flags);
  cluster.memory = draw_between(flags.memories, "--memories", flags);
  const auto num_ranks = static_cast<std::size_t>(flags.num_ranks);
  for (const std::string& text : flags.rank_speeds) {
    const std::size_t equals = text.find('=');
    WEFT_USER_CHECK(equals != std::string::npos,
                    "--rank-speed is '{}', expected RANK=SPEED such as 3=0.7", text);
    const std::size_t rank =
        checked_rank(parse_count(text.substr(0, equals), "--rank-speed"), "--rank-speed", flags);
    cluster.speed.resize(num_ranks, 1.0);
    cluster.speed[rank] =
        parse_real(std::string_view(text).substr(equals + 1), "--rank-speed", text);
  }
  for (const std::int32_t rank : flags.dead) {
    cluster.memory.resize(num_ranks, 1.0);
    cluster.memory[checked_rank(rank, "--dead", flags)] = 0;
  }
  cluster.pipeline_stages = flags.pipeline_stages;
  cluster.virtual_stages = flags.virtual_stages;
  validate(cluster);
  return cluster;
}

}  // namespace

Tokens parse_tokens(const std::string& text, std::string_view what, std::int64_t otherwise) {
  if (text.empty()) return Tokens(otherwise);
  const std::int64_t count = parse_count(text, what);
  WEFT_USER_CHECK(count >= 1 && count <= kMostTokens.value(), "{} is {}, expected 1 to {} tokens",
                  what, text, kMostTokens);
  return Tokens(count);
}

PlanRequest request_without_sequences(const PlanFlags& flags) {
  PlanRequest request;
  request.cluster = cluster_of(flags);
  request.cost = flags.cost.empty() ? reference_cost_7b() : load_cost_model(flags.cost);
  request.options = {.strategy = flags.strategy,
                     .capacity = parse_tokens(flags.capacity, "--capacity", 0),
                     .max_context = parse_tokens(flags.max_context, "--max-context", 0),
                     .offload = flags.offload,
                     .num_threads = flags.num_threads,
                     .weighting = parse_loss_weighting(flags.weighting, "--weighting"),
                     .step = flags.step,
                     .seed = flags.seed};
  if (!flags.context.empty() && flags.max_context.empty())
    request.options.max_context = parse_tokens(flags.context, "--context", 0);
  return request;
}

std::vector<SequenceSpec> sequences_of_step(const PlanFlags& flags, const PlanRequest& request,
                                            std::int64_t step) {
  WEFT_USER_CHECK(!flags.corpus.empty() || flags.over_long == PlanFlags().over_long,
                  "plan: --over-long is about the documents of a --corpus; leave it out here");
  const Tokens all_ranks = request.options.capacity * request.cluster.num_ranks;
  if (!flags.workload.empty()) {
    WEFT_USER_CHECK(!flags.global_batch_tokens.empty(),
                    "plan: --workload needs --global-batch-tokens");
    const Workload workload =
        parse_workload(flags.workload, parse_tokens(flags.context, "--context", all_ranks.value()));
    return specs_of(
        draw_lengths(workload, parse_tokens(flags.global_batch_tokens, "--global-batch-tokens", 0),
                     flags.seed, step));
  }
  WEFT_USER_CHECK(flags.context.empty(), "plan: --context caps a --workload; use --max-context");
  if (!flags.corpus.empty()) {
    return sequences_of_corpus(
        flags, flags.max_context.empty() ? all_ranks : request.options.max_context, step);
  }
  const std::vector<SequenceSpec> all = specs_of(read_lengths_file(flags.lengths));
  Tokens total;
  for (const SequenceSpec& sequence : all) total += sequence.tokens;
  return take_step(all, step,
                   parse_tokens(flags.global_batch_tokens, "--global-batch-tokens",
                                std::max<std::int64_t>(1, total.value())));
}

std::vector<SequenceSpec> some_sequences_of_step(const PlanFlags& flags, const PlanRequest& request,
                                                 std::int64_t step) {
  std::vector<SequenceSpec> sequences = sequences_of_step(flags, request, step);
  WEFT_USER_CHECK(!sequences.empty(),
                  "simulate: step {} has no sequences, expected at least one; give a file of "
                  "lengths that is not empty, a --corpus or a --workload",
                  step);
  return sequences;
}

void check_sequence_source(const PlanFlags& flags) {
  if (!flags.lengths.empty()) read_lengths_file(flags.lengths);
  if (flags.corpus.empty()) return;
  const Corpus corpus(flags.corpus);
  parse_over_long(flags.over_long, "--over-long");
}

CLI::App* add_sequence_flags(CLI::App& plan, PlanFlags& flags) {
  auto* source = plan.add_option_group("input", "where the sequences come from");
  source
      ->add_option("--lengths", flags.lengths,
                   "File with one sequence length (tokens) a line; # starts a comment")
      ->type_name("FILE");
  source->add_option("--corpus", flags.corpus, "Corpus directory")->type_name("DIR");
  source
      ->add_option(
          "--workload", flags.workload,
          "byted, github, wikipedia, lognormal:MEAN,SIGMA,MAX, or a file of lengths (one a "
          "line, or .jsonl) or corpus to draw from")
      ->type_name("NAME");
  plan.add_option("--context", flags.context,
                  "Longest sequence of the workload, such as 2M (default: ranks * capacity)")
      ->type_name("TOKENS");
  plan.add_option(
          "--max-context", flags.max_context,
          "Longest sequence of the run: sizes the mesh of 'static' (default: --context, else "
          "the longest given), and is where --over-long applies with --corpus (default: ranks "
          "* capacity)")
      ->type_name("TOKENS");
  plan.add_option("--global-batch-tokens", flags.global_batch_tokens,
                  "Most tokens of one step, such as 32M (default with --lengths: everything)")
      ->type_name("TOKENS");
  plan.add_option("--over-long", flags.over_long,
                  "With --corpus, a document above --max-context: error or split (default: error)")
      ->type_name("POLICY");
  plan.add_option("--step", flags.step, "Which step to plan, from 0 (default: 0)")
      ->check(CLI::NonNegativeNumber)
      ->type_name("K");
  plan.add_option("--seed", flags.seed, "Seed of the data order or workload (default: 0)")
      ->type_name("SEED");
  return source;
}

void add_input_flags(CLI::App& plan, PlanFlags& flags) {
  add_sequence_flags(plan, flags)->require_option(1);
  plan.add_option("--ranks", flags.num_ranks, "Ranks of the HDP axis")->required()->type_name("N");
  plan.add_option(
          "--ranks-per-node", flags.ranks_per_node,
          "Ranks that share a node: groups stay inside nodes where that is free (default: 8)")
      ->type_name("N");
  plan.add_option("--speeds", flags.speeds,
                  "Each rank's speed drawn between LOW and HIGH (default: all 1)")
      ->type_name("LOW:HIGH");
  plan.add_option("--memories", flags.memories,
                  "Each rank's share of the capacity drawn between LOW and HIGH (default: all 1)")
      ->type_name("LOW:HIGH");
  plan.add_option("--rank-speed", flags.rank_speeds, "Speed of one rank; may be repeated")
      ->type_name("RANK=SPEED");
  plan.add_option("--dead", flags.dead, "A rank that gets nothing; may be repeated")
      ->type_name("RANK");
  plan.add_option("--pipeline-stages", flags.pipeline_stages,
                  "Every rank is a pipeline of P devices that share its layers (default: 1)")
      ->check(CLI::Range(std::int32_t{1}, std::numeric_limits<std::int32_t>::max()))
      ->type_name("P");
  plan.add_option(
          "--virtual-stages", flags.virtual_stages,
          "Each of them holds V chunks of layers, run in turns (interleaved 1F1B; default: 1)")
      ->check(CLI::Range(std::int32_t{1}, std::numeric_limits<std::int32_t>::max()))
      ->type_name("V");
  plan.add_flag(
      "--offload", flags.offload,
      "Long sequences may offload activations to need fewer ranks, where the cost says how "
      "fast; planning only (default: off)");
  plan.add_option("--threads", flags.num_threads,
                  "Threads that plan; the plan is the same for any number (default: 1)")
      ->check(CLI::Range(1, 1024))
      ->type_name("T");
  plan.add_option("--capacity", flags.capacity,
                  "Tokens that a rank holds in one micro-batch, such as 8K")
      ->required()
      ->type_name("TOKENS");
  plan.add_option("--weighting", flags.weighting,
                  "Weight of a target in the loss: token or sample (default: token)")
      ->type_name("MODE");
  plan.add_option("--cost", flags.cost,
                  "Cost file (default: the reference cost of a 7B model, reference-7b)")
      ->type_name("FILE");
}

}  // namespace weft
