// Saving and loading a run's state by all ranks together. Weights and moments are replicated, so
// each rank writes, and reads, its even part of the flat buffers and the parts are joined: a
// checkpoint is written once, whatever the number of ranks, and read by any number.
//
// Every rank calls these with the same arguments, and every rank learns of a failure of any: they
// all return or throw together. P parameters, each once.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "checkpoint/checkpoint_manifest.h"
#include "comm/communicator.h"
#include "comm/gather_text.h"
#include "model/parameters.h"
#include "optim/adamw.h"

namespace weft {

struct CheckpointTarget {
  std::filesystem::path folder;  // OUT/checkpoints; every rank must reach it by the same path
  std::int64_t keep_last = 0;    // 0: all
};

// What rank 0 knows of the run; the others' value is not looked at.
struct CheckpointHead {
  RunPosition position;
  Hash128 corpus_hash;
  std::string config;  // the effective configuration, TOML
};

// Returns the first rank that failed and why, the same on all ranks; nothing counts then, and what
// was saved before is untouched. `step` is the steps done, known to all ranks.
std::optional<RankReason> save_checkpoint(Communicator& comm, const CheckpointTarget& target,
                                          std::int64_t step, const CheckpointHead& head,
                                          const ParameterSet& parameters, const AdamW& optimizer);

// Fills parameters, moments and number of updates, bit for bit as they were saved. UserError on
// every rank: the checkpoint lacks a parameter, has another one, or another shape or dtype; or some
// ranks see another checkpoint than rank 0 (with the list of who sees what).
void load_checkpoint(Communicator& comm, const std::filesystem::path& checkpoint,
                     ParameterSet& parameters, AdamW& optimizer);

}  // namespace weft
