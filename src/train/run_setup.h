// A run before its first step: the corpus opened, the configuration settled, everything checked
// that can be checked. Each process of a run makes one; it needs no other rank.
#pragma once

#include <memory>
#include <string>

#include "corpus/corpus.h"
#include "corpus/sequence_set.h"
#include "cost/cost_model.h"
#include "train/compute_rate.h"
#include "train/config.h"
#include "train/offload_setup.h"
#include "train/plan_feed.h"
#include "train/step_loop.h"

namespace weft {

// The ranks of a run and how they are spread over processes and hosts.
struct RankPlacement {
  std::int32_t num_ranks = 1;
  std::int32_t ranks_on_host = 1;   // that share this host's cores
  std::int32_t ranks_per_node = 1;  // neighbours on one host, the same on all ranks of the run
  std::string description;          // "4 threads of one process", "4 processes of mpirun"
};

// Compute threads of one rank: train.threads_per_rank, or so many that the ranks of this host fill
// its cores. UserError when more are asked for than there are cores.
std::int32_t settle_threads(const TrainConfig& config, std::int32_t ranks_on_host);

class RunSetup {
 public:
  // UserError: whatever is wrong with configuration, corpus, cost file or replayed plans. `replay`:
  // plan file or folder of plans; empty: plan. `settle_rate` is asked for the rate of offload when
  // plans need it.
  RunSetup(TrainConfig config, RankPlacement placement, std::string replay,
           const std::function<OffloadRate(const TrainConfig&)>& settle_rate);

  const TrainConfig& config() const { return config_; }  // settled: nothing is left to a default
  const Corpus& corpus() const { return corpus_; }
  const SequenceSet& sequences() const { return sequences_; }
  const RankPlacement& placement() const { return placement_; }
  const CostModel& cost() const { return cost_; }  // what plans are made by
  std::int32_t threads_per_rank() const { return threads_per_rank_; }
  const MemoryBudget& memory() const { return memory_; }

  // The data order at its start.
  DataOrder data_order() const;
  // Plans, or replays, from `first_step` on. All plans to be replayed are read once now: a wrong
  // one in the middle is known before the first step.
  std::unique_ptr<PlanFeed> make_feed(DataOrder order, std::int64_t first_step) const;
  // Everything about the loop but where it starts and who listens.
  StepLoop make_loop() const;

  std::string effective_config() const;             // TOML
  void print_start(const ComputePeak& peak) const;  // to stdout

 private:
  void print_memory() const;
  void print_offload() const;

  TrainConfig config_;
  RankPlacement placement_;
  std::string replay_;
  Corpus corpus_;
  SequenceSet sequences_;
  OffloadRate offload_rate_;
  CostModel cost_;
  MemoryBudget memory_;
  std::int32_t threads_per_rank_ = 1;
};

}  // namespace weft
