// The trainer: from a configuration to trained weights. The only place that knows every other
// module.
//
// A run belongs to its folder OUT (run_folder.h): started again with the same OUT it goes on from
// the newest whole checkpoint, on whatever ranks and transport it is started with.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/launch_place.h"
#include "comm/virtual/virtual_world.h"
#include "train/config.h"
#include "train/resume.h"
#include "train/step_loop.h"

namespace weft {

struct TrainingJob {
  TrainConfig config;  // train.ranks: 0 or what the launcher says, when one started this process
  std::string replay;  // plan file or folder of plans; empty: plan
  bool save_plans = false;       // write every step's plan to OUT/plans
  std::int64_t trace_step = -1;  // record every operation of this step in OUT/trace; -1: of none
  Allowances allowances;
  // Ranks as virtual ranks joined by such links: all times of the run are those of their own
  // clocks. Only with ranks as threads, of one compute thread each.
  std::optional<VirtualLink> virtual_link;
};

// All ranks as threads of this process. Throws UserError, CommError, IoError or InternalError; OUT
// keeps what was written. After a stop signal (stop_signal.h) the state is saved and kStopped
// returned.
LoopEnd run_training(const TrainingJob& job);

// This process's rank among the processes that a launcher started, joined through MPI.
// `make_job` is called inside the job, so that what is wrong for all is said once, by one rank.
struct ProcessTraining {
  LaunchPlace place;
  std::chrono::nanoseconds wait_limit = std::chrono::seconds(60);
  bool check_messages = true;
};
LoopEnd run_training_process(const ProcessTraining& process,
                             const std::function<TrainingJob()>& make_job);

}  // namespace weft
