#include "cli/profile_command.h"

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "cli/link_options.h"
#include "comm/launch_place.h"
#include "comm/mpi/mpi_world.h"
#include "comm/thread/thread_world.h"
#include "corpus/corpus.h"
#include "machine/disk_probe.h"
#include "train/config.h"
#include "train/machine_cluster.h"
#include "train/memory_budget.h"
#include "train/profile.h"
#include "train/run_setup.h"

namespace weft {
namespace {

// Ranks that only wait for the measuring one must not give up before it is done.
constexpr std::chrono::nanoseconds kWaitLimit = std::chrono::hours(2);

struct ProfileArguments {
  std::string config;
  std::string out;
  std::string cluster_out;  // "": none
  double seconds = 60;
  LinkArguments link;
};

// As the ranks that are to be predicted will have: virtual ones one each, others what is left of
// the host's cores.
std::int32_t threads_of(const ProfileArguments& arguments, const TrainConfig& config,
                        const LaunchPlace& place) {
  if (!arguments.link.given()) {
    return settle_threads(config, place.launcher == Launcher::kNone
                                      ? static_cast<std::int32_t>(config.train.ranks)
                                      : place.local_size);
  }
  WEFT_USER_CHECK(config.train.threads_per_rank <= 1,
                  "train.threads_per_rank is {}, but virtual ranks compute on one thread each; "
                  "leave it out",
                  config.train.threads_per_rank);
  return 1;
}

ProfileOptions make_options(const ProfileArguments& arguments, const std::vector<std::string>& rest,
                            const LaunchPlace& place) {
  TrainConfig config = load_train_config(arguments.config, parse_overrides(rest));
  if (config.model.vocab_size == 0) {
    config.model.vocab_size = Corpus(config.data.corpus).description().tokenizer.vocab_size;
  }
  check_model_config(config.model);
  const std::int32_t threads = threads_of(arguments, config, place);
  const Tokens capacity =
      settle_capacity(config, memory_budget(config, threads), config.data.max_context);
  return {.model = {.model = config.model,
                    .dtype = parse_dtype(config.train.dtype, "train.dtype"),
                    .attention = config.train.attention,
                    .recompute = parse_recompute(config.memory.recompute),
                    .threads = threads},
          .capacity = capacity,
          .bucket_bytes = config.train.bucket_bytes,
          .seconds = arguments.seconds};
}

void print_batch(const ProfiledBatch& batch) {
  fmt::print("{:>6} x {:<8}{:>5}{:>12.2f} ms{:>12.2f} ms{:>6} runs\n", batch.num_sequences,
             batch.tokens_each, batch.degree, 1e3 * batch.median.forward_s,
             1e3 * batch.median.backward_s, batch.runs.size());
}

void print_fit(const Profile& profile) {
  const CostModel& cost = profile.cost;
  fmt::print("\nhop of K and V, both ways at once\n");
  for (const HopSample& hop : profile.hops) {
    fmt::print(
        "{:>17}{:>12.3f} ms{:>12.2f} GB/s{:>12.3f} ms beside compute\n", hop.tokens,
        1e3 * hop.seconds,
        1e-9 * cost.kv_bytes_per_token * static_cast<double>(hop.tokens.value()) / hop.seconds,
        1e3 * hop.unhidden_s);
  }
  fmt::print("\nsum of gradients over ranks\n");
  for (const ReductionSample& reduction : profile.reductions) {
    fmt::print("{:>17}{:>12.3f} ms{:>12.2f} GB/s\n", format_bytes(reduction.sent),
               1e3 * reduction.seconds,
               1e-9 * static_cast<double>(reduction.sent.value()) / reduction.seconds);
  }
  fmt::print(
      "\nper layer forward: {:.4g} ns a pair, {:.4g} ns a token, {:.4g} ns a micro-batch; backward "
      "{:.3f} times that\n"
      "ring: {:.4g} ns a token and {:.4g} ns for each step after the first\n"
      "hop: {:.4g} ns a token and {:.4g} ns\n"
      "the fit is off by {:.1f} % (mean) and {:.1f} % (worst) for micro-batches, {:.1f} % and "
      "{:.1f} "
      "% for hops\n"
      "end of a step: {:.4g} ns a byte sent and {:.4g} ns to sum gradients, {:.4g} ns a byte to "
      "update\n"
      "spread: a run of 100 ms deviates by {:.1f} ms\n",
      cost.attention_ns_per_pair, cost.linear_ns_per_token, cost.fixed_ns, cost.backward_ratio,
      cost.ring_step_ns_per_token, cost.ring_step_fixed_ns, cost.hop_ns_per_token,
      cost.hop_fixed_ns, 100 * profile.compute_fit.mean_abs_error,
      100 * profile.compute_fit.worst_abs_error, 100 * profile.hop_fit.mean_abs_error,
      100 * profile.hop_fit.worst_abs_error, cost.reduce_ns_per_byte, cost.reduce_fixed_ns,
      cost.optimizer_ns_per_byte, 1e-6 * std::sqrt(cost.spread_ns * 1e8));
  if (profile.batches.back().degree == 1)
    fmt::print(
        "rings are measured with one compute thread only: of their further steps only what compute "
        "does not hide of a hop is counted\n");
}

void run_rank(const ProfileArguments& arguments, const ProfileOptions& options,
              Communicator& comm) {
  set_compute_threads(options.model.threads);
  const bool reports = comm.rank() == Rank(0);
  if (reports) {
    fmt::print("timing micro-batches in turns for about {} s after each ran once\n",
               options.seconds);
    std::fflush(stdout);
  }
  const Profile profile = profile_machine(options, comm);
  if (!reports) return;
  fmt::print("sequences x tokens ranks    forward       backward   (tokens of a rank; medians)\n");
  for (const ProfiledBatch& batch : profile.batches) print_batch(batch);
  print_fit(profile);
  save_cost_model(arguments.out, profile.cost);
  fmt::print("wrote   {}; train with --plan.cost {}\n", arguments.out, arguments.out);
  if (arguments.cluster_out.empty()) return;
  const std::filesystem::path cluster_out = arguments.cluster_out;
  save_cluster(cluster_out,
               machine_cluster(options, profile, nearest_existing(cluster_out.parent_path())));
  fmt::print("wrote   {}; weft simulate --model NAME --cluster {} --dtype float32\n",
             arguments.cluster_out, arguments.cluster_out);
}

// Before minutes of measuring, not after: makes the temporary file and drops it.
void check_writable(const std::filesystem::path& path) { const AtomicFile dropped(path); }

void run_profile(const ProfileArguments& arguments, const std::vector<std::string>& rest) {
  const LaunchPlace place = find_launch_place([](const char* name) { return std::getenv(name); });
  const ProfileOptions options = make_options(arguments, rest, place);
  check_writable(arguments.out);
  if (!arguments.cluster_out.empty()) {
    check_writable(arguments.cluster_out);
    WEFT_USER_CHECK(options.model.dtype == at::kFloat,
                    "--cluster-out needs train.dtype float32, got {}",
                    dtype_name(options.model.dtype));
  }
  prepare_process(options.model.threads);
  const auto body = [&](Communicator& comm) { run_rank(arguments, options, comm); };
  if (arguments.link.given()) {
    WEFT_USER_CHECK(
        place.launcher == Launcher::kNone,
        "--link-bandwidth and --link-latency are for virtual ranks, but {} started this "
        "process; leave them out to time the real link, or start without a launcher",
        to_string(place.launcher));
    run_virtual_ranks(
        {.num_ranks = 2, .link = parse_link(arguments.link), .wait_limit = kWaitLimit}, body);
  } else if (place.launcher == Launcher::kNone) {
    run_thread_ranks({.num_ranks = 2, .wait_limit = kWaitLimit}, body);
  } else {
    run_mpi_rank({.wait_limit = kWaitLimit}, body);
  }
}

}  // namespace

void add_profile_command(CLI::App& app) {
  auto arguments = std::make_shared<ProfileArguments>();
  CLI::App* command = app.add_subcommand(
      "profile",
      "Measure this machine with a model of this configuration; writes a cost file for plan.cost");
  command->add_option("--config", arguments->config, "Configuration file (TOML), as for train")
      ->required();
  command->add_option("--out", arguments->out, "Cost file to write (JSON)")->required();
  command->add_option("--cluster-out", arguments->cluster_out,
                      "Cluster file to write as well: this machine, for weft simulate --cluster");
  command->add_option("--seconds", arguments->seconds, "About how long to measure")
      ->check(CLI::Range(0.1, 86400.0));
  add_link_options(*command, arguments->link, "Time hops over the link of virtual ranks");
  command->allow_extras();
  command->footer(
      "Uses model, train.dtype, train.attention, train.threads_per_rank, memory.recompute and "
      "plan.capacity of the configuration; each can be given as --section.key VALUE.\nHops are "
      "timed "
      "between two threads, or between two processes when started by mpirun -n 2.");
  command->callback([command, arguments] { run_profile(*arguments, command->remaining()); });
}

}  // namespace weft
