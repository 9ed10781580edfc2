#include "train/trainer.h"

#include <cstdio>

#include "base/error.h"
#include "base/log.h"
#include "comm/collectives.h"
#include "comm/mpi/mpi_world.h"
#include "comm/thread/thread_world.h"
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

// One rank of a run. The head owns OUT; the others only compute and write their parts of
// checkpoints.
class RankRun {
 public:
  RankRun(const RunSetup& setup, const TrainingJob& job, Communicator& comm)
      : setup_(setup), job_(job), comm_(comm), loop_(setup.make_loop()) {}

  LoopEnd run() {
    loop_.stop_requested = stop_requested;
    if (comm_.rank() == kHead) open_folder();
    bool loads = !loop_.load_from.empty();
    share_start(comm_, loop_.start, loads);
    if (loads) loop_.load_from = checkpoint_path(loop_.checkpoints.folder, loop_.start.step);
    const LoopEnd end = run_steps(loop_, setup_.sequences(), feed_.get(), comm_);
    if (comm_.rank() == kHead) {
      folder_->close();
      print_end(setup_, last_, end);
    }
    return end;
  }

 private:
  void open_folder() {
    const TrainConfig& config = setup_.config();
    lock_ = std::make_unique<RunLock>(config.train.out);
    Start start = find_start(setup_, job_.allowances);
    WEFT_USER_CHECK(start.position.step <= config.train.steps,
                    "'{}' is at step {} already, train.steps is {}; raise it to train on, or "
                    "choose another train.out",
                    start.point.checkpoint.string(), start.position.step, config.train.steps);
    feed_ = setup_.make_feed(std::move(start.order), start.position.step);
    folder_ = std::make_unique<RunFolder>(setup_, start.position.step, job_.save_plans);
    last_ = start.position;
    const ComputePeak peak =
        measure_compute_peak(loop_.dtype, loop_.num_ranks, loop_.threads_per_rank);
    loop_.peak_flops_per_s = peak.flops_per_s;
    fmt::print("{}\n", setup_.effective_config());
    setup_.print_start(peak);
    print_resume(start, config);
    std::fflush(stdout);
    loop_.start = start.position;
    if (start.point.manifest) loop_.load_from = start.point.checkpoint;
    listen();
  }

  void listen() {
    loop_.on_plan = [this](const StepPlan& plan) { folder_->on_plan(plan); };
    loop_.on_step = [this](const StepMetrics& metrics) {
      folder_->on_step(metrics);
      last_.step = metrics.step + 1;
      last_.num_updates = last_.step - metrics.skipped_steps;
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

}  // namespace

LoopEnd run_training(const TrainingJob& job) {
  const auto num_ranks = static_cast<std::int32_t>(job.config.train.ranks);
  const RunSetup setup(job.config,
                       {.num_ranks = num_ranks,
                        .ranks_on_host = num_ranks,
                        .description = fmt::format("{} threads of one process", num_ranks)},
                       job.replay, [num_ranks](const TrainConfig& config) {
                         return settle_offload_rate(config, num_ranks);
                       });
  prepare_process(setup.threads_per_rank());
  LoopEnd end = LoopEnd::kFinished;
  run_thread_ranks({.num_ranks = num_ranks, .wait_limit = wait_limit(job.config.comm)},
                   [&](Communicator& comm) {
                     const LoopEnd own = RankRun(setup, job, comm).run();
                     if (comm.rank() == kHead) end = own;
                   });
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
                      .description = fmt::format("{} processes of {}", comm.size(),
                                                 to_string(process.place.launcher))},
                     job.replay, [&](const TrainConfig& config) {
                       return share_offload_rate(comm, config, process.place.local_size);
                     });
                 check_same_setup(comm, setup);
                 prepare_process(setup.threads_per_rank());
                 end = RankRun(setup, job, comm).run();
               });
  return end;
}

}  // namespace weft
