#include "train/trainer.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/error.h"
#include "base/log.h"
#include "comm/collectives.h"
#include "comm/mpi/mpi_world.h"
#include "comm/thread/thread_world.h"
#include "memory/counting_allocator.h"
#include "train/run_folder.h"
#include "train/run_setup.h"
#include "train/stop_signal.h"

namespace weft {
namespace {

constexpr Rank kHead{0};  // decides, plans, reports

// The last word on where the run starts, in the head's hands.
struct Start {
  ResumePoint point;
  RunPosition position;
  DataOrder order;
};

Start find_start(const RunSetup& setup, const Allowances& allowances) {
  Start start{.point = find_resume_point(setup.config(), setup.corpus().hash(), allowances),
              .position = {},
              .order = setup.data_order()};
  start.position.reader = start.order.state();
  if (!start.point.manifest) return start;
  start.position = start.point.manifest->position;
  if (start.point.restarts_data) start.position.reader = start.order.state();  // still at its start
  start.order.set_state(start.position.reader);
  return start;
}

void print_resume(const Start& start, const TrainConfig& config) {
  for (const std::string& note : start.point.notes) log_warn("{}", note);
  if (!start.point.manifest) return;
  fmt::print("resume  step {} of {}, from {} (epoch {}, position {})\n", start.position.step,
             config.train.steps, start.point.checkpoint.string(), start.position.reader.epoch,
             start.position.reader.position);
  for (const ConfigDifference& difference : start.point.differences) {
    fmt::print("        {}: was {}, is {}\n", difference.key, difference.left, difference.right);
  }
}

// Every rank takes the position that the head found; its reader's part matters on the head only.
void share_start(Communicator& comm, RunPosition& position, bool& loads) {
  std::array<std::int64_t, 3> shared = {position.step, position.num_updates, loads ? 1 : 0};
  broadcast(comm, kHead, std::as_writable_bytes(std::span(shared)), {.operation = "start"});
  position.step = shared[0];
  position.num_updates = shared[1];
  loads = shared[2] != 0;
}

void print_end(const RunSetup& setup, const RunPosition& position, LoopEnd end) {
  const std::int64_t skipped = position.step - position.num_updates;
  if (skipped > 0) {
    log_warn("{} of {} steps were skipped and changed nothing", skipped, position.step);
  }
  if (end == LoopEnd::kStopped) {
    fmt::print(
        "stopped by {} after step {} of {}; start it again with the same train.out to go "
        "on\n",
        stop_signal_name(), position.step, setup.config().train.steps);
  }
  std::fflush(stdout);
}

// What the ranks of a process have in common.
struct ProcessPlace {
  Bytes resident_before;        // that it held before its first rank
  std::int32_t num_ranks_here;  // of the run
};

Bytes states_of_rank(const RunSetup& setup) {
  return predict_peak(setup.memory().shape, MicroBatchSize()).states();
}

// One rank of a run. The head owns OUT; the others only compute and write their parts of
// checkpoints.
class RankRun {
 public:
  RankRun(const RunSetup& setup, const TrainingJob& job, Communicator& comm,
          const ProcessPlace& process)
      : setup_(setup), job_(job), comm_(comm), loop_(setup.make_loop()) {
    loop_.resident_before = process.resident_before;
    loop_.ranks_here = process.num_ranks_here;
  }

  LoopEnd run() {
    loop_.stop_requested = stop_requested;
    loop_.trace_step = job_.trace_step;
    if (comm_.rank() == kHead) open_folder();
    bool loads = !loop_.load_from.empty();
    share_start(comm_, loop_.start, loads);
    if (loads) loop_.load_from = checkpoint_path(loop_.checkpoints.folder, loop_.start.step);
    const LoopEnd end = run_steps(loop_, setup_.sequences(), feed_.get(), comm_);
    if (comm_.rank() == kHead) {
      folder_->close();
      print_memory();
      print_end(setup_, last_, end);
    }
    return end;
  }

 private:
  RanksOnCores ranks_on_cores() const {
    return {.num_ranks = loop_.num_ranks,
            .threads_per_rank = loop_.threads_per_rank,
            .ranks_here = loop_.ranks_here,
            .ranks_on_host = setup_.placement().ranks_on_host};
  }

  void open_folder() {
    const TrainConfig& config = setup_.config();
    lock_ = std::make_unique<RunLock>(config.train.out);
    Start start = find_start(setup_, job_.allowances);
    WEFT_USER_CHECK(start.position.step <= config.train.steps,
                    "'{}' is at step {} already, train.steps is {}; raise it to train on, or "
                    "choose another train.out",
                    start.point.checkpoint.string(), start.position.step, config.train.steps);
    check_trace_step(start.position.step);
    feed_ = setup_.make_feed(std::move(start.order), start.position.step);
    folder_ = std::make_unique<RunFolder>(setup_, start.position.step, job_.save_plans);
    last_ = start.position;
    const ComputePeak peak = job_.virtual_link
                                 ? measure_virtual_peak(loop_.dtype, loop_.num_ranks)
                                 : measure_compute_peak(loop_.dtype, ranks_on_cores());
    loop_.peak_flops_per_s = peak.flops_per_s;
    fmt::print("{}\n", setup_.effective_config());
    setup_.print_start(peak);
    print_resume(start, config);
    std::fflush(stdout);
    loop_.start = start.position;
    if (start.point.manifest) loop_.load_from = start.point.checkpoint;
    listen();
  }

  void check_trace_step(std::int64_t first_step) const {
    const std::int64_t last_step = setup_.config().train.steps - 1;
    const std::int64_t step = job_.trace_step;
    WEFT_USER_CHECK(step < 0 || (step >= first_step && step <= last_step),
                    "--trace {}: this run has steps {} to {}; choose one of them", step, first_step,
                    last_step);
  }

  // The largest step of this process, beside what its plan had let expect.
  void print_memory() const {
    if (largest_.peak_bytes == Bytes(0)) return;
    const Bytes budget = setup_.memory().bytes;
    fmt::print(
        "memory  measured peak {}{} per rank in step {}, predicted for its plan {}; the "
        "largest process grew by {}\n",
        format_bytes(largest_.peak_bytes),
        budget > Bytes(0) ? fmt::format(" of budget {}", format_bytes(budget)) : "",
        largest_.step + 1, format_bytes(largest_.predicted_peak_bytes),
        format_bytes(largest_resident_));
  }

  void listen() {
    loop_.on_plan = [this](const StepPlan& plan) { folder_->on_plan(plan); };
    loop_.on_step = [this](const StepMetrics& metrics) {
      folder_->on_step(metrics);
      if (metrics.peak_bytes > largest_.peak_bytes) largest_ = metrics;
      largest_resident_ = std::max(largest_resident_, metrics.resident_bytes);
      last_.step = metrics.step + 1;
      last_.num_updates = last_.step - metrics.skipped_steps;
    };
    loop_.on_trace = [this](std::int64_t step, std::span<const RankTrace> ranks) {
      const std::string path = folder_->on_trace(step, ranks).string();
      fmt::print("trace   step {}, mean of {} ranks; operations: {}\n{}", step, ranks.size(), path,
                 breakdown(ranks, loop_.peak_flops_per_s / static_cast<double>(ranks.size())));
    };
    loop_.on_saved = [this](const RunPosition& position, double elapsed_s) {
      fmt::print("saved   {} in {:.2f} s\n",
                 checkpoint_path(loop_.checkpoints.folder, position.step).string(), elapsed_s);
      std::fflush(stdout);
    };
    loop_.on_finished = [this](const ParameterSet& parameters) {
      folder_->on_finished(parameters);
    };
  }

  const RunSetup& setup_;
  const TrainingJob& job_;
  Communicator& comm_;
  StepLoop loop_;
  RunPosition last_;
  StepMetrics largest_;  // of this process's steps, by peak_bytes
  Bytes largest_resident_;
  std::unique_ptr<RunLock> lock_;  // these three on the head only
  std::unique_ptr<RunFolder> folder_;
  std::unique_ptr<PlanFeed> feed_;
};

// Ranks that hold other corpora or configurations would train something nobody asked for.
void check_same_setup(Communicator& comm, const RunSetup& setup) {
  const Hash128 config_hash = hash128(setup.effective_config());
  const auto all = gather_texts(comm, config_hash.hex() + " " + setup.corpus().hash().hex(),
                                {.operation = "configuration and corpus"});
  for (std::size_t r = 1; r < all.size(); ++r) {
    WEFT_USER_CHECK(all[r] == all[0],
                    "rank {} runs with another configuration or corpus than rank 0 (hashes {}, "
                    "rank 0: {}); give all processes the same arguments and files",
                    r, all[r], all[0]);
  }
}

std::int32_t gather_ranks_per_node(Communicator& comm, const LaunchPlace& place) {
  const std::array<std::int64_t, 2> mine = {place.local_rank, place.local_size};
  const auto all = gather_all<std::int64_t>(comm, mine, {.operation = "ranks of a host"});
  std::vector<LocalPlace> places;
  for (std::size_t i = 0; i < all.size(); i += mine.size()) {
    places.push_back({static_cast<std::int32_t>(all[i]), static_cast<std::int32_t>(all[i + 1])});
  }
  return ranks_per_node(places);
}

// A virtual rank's clock sees its own thread alone.
TrainConfig for_virtual_ranks(TrainConfig config) {
  WEFT_USER_CHECK(
      config.train.threads_per_rank <= 1,
      "train.threads_per_rank is {}, but virtual ranks compute on one thread each; set 1 "
      "or 0",
      config.train.threads_per_rank);
  WEFT_USER_CHECK(config.memory.offload == "none",
                  "memory.offload is '{}', but a virtual rank's clock does not see the disk; set "
                  "\"none\" with --virtual-ranks",
                  config.memory.offload);
  config.train.threads_per_rank = 1;
  return config;
}

std::string describe_ranks(const TrainingJob& job) {
  if (!job.virtual_link) return fmt::format("{} threads of one process", job.config.train.ranks);
  return fmt::format(
      "{} virtual ranks, links of {:.4g} GB/s and {:.4g} us (times are the ranks' own)",
      job.config.train.ranks, 1e-9 * job.virtual_link->bytes_per_second,
      1e-3 * static_cast<double>(job.virtual_link->latency.count()));
}

}  // namespace

LoopEnd run_training(const TrainingJob& job) {
  const auto num_ranks = static_cast<std::int32_t>(job.config.train.ranks);
  const RunSetup setup(job.virtual_link ? for_virtual_ranks(job.config) : job.config,
                       {.num_ranks = num_ranks,
                        .ranks_on_host = num_ranks,
                        .ranks_per_node = num_ranks,
                        .description = describe_ranks(job)},
                       job.replay, [num_ranks](const TrainConfig& config) {
                         return settle_offload_rate(config, num_ranks);
                       });
  const Bytes resident_before = prepare_process(setup.threads_per_rank());
  limit_large_blocks(num_ranks * setup.memory().bytes);
  reserve_states(states_of_rank(setup), num_ranks);
  LoopEnd end = LoopEnd::kFinished;
  const auto body = [&](Communicator& comm) {
    const LoopEnd own = RankRun(setup, job, comm, {resident_before, num_ranks}).run();
    if (comm.rank() == kHead) end = own;
  };
  const auto limit = wait_limit(job.config.comm);
  if (job.virtual_link) {
    run_virtual_ranks({.num_ranks = num_ranks, .link = *job.virtual_link, .wait_limit = limit},
                      body);
  } else {
    run_thread_ranks({.num_ranks = num_ranks, .wait_limit = limit}, body);
  }
  return end;
}

LoopEnd run_training_process(const ProcessTraining& process,
                             const std::function<TrainingJob()>& make_job) {
  LoopEnd end = LoopEnd::kFinished;
  run_mpi_rank({.wait_limit = process.wait_limit, .check_messages = process.check_messages},
               [&](Communicator& comm) {
                 const TrainingJob job = make_job();
                 const RunSetup setup(
                     job.config,
                     {.num_ranks = comm.size(),
                      .ranks_on_host = process.place.local_size,
                      .ranks_per_node = gather_ranks_per_node(comm, process.place),
                      .description = fmt::format("{} processes of {}", comm.size(),
                                                 to_string(process.place.launcher))},
                     job.replay, [&](const TrainConfig& config) {
                       return share_offload_rate(comm, config, process.place.local_size);
                     });
                 check_same_setup(comm, setup);
                 const Bytes resident_before = prepare_process(setup.threads_per_rank());
                 limit_large_blocks(setup.memory().bytes);
                 reserve_states(states_of_rank(setup), 1);
                 end = RankRun(setup, job, comm, {resident_before, 1}).run();
               });
  return end;
}

}  // namespace weft
