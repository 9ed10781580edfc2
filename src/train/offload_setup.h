// What a run settles about offload before it plans: where activations go, and how fast.
//
// The rate shapes plans, so it is settled once in the life of a run and becomes part of the
// effective configuration: given, else taken from OUT/config.toml where a run with the same
// memory.offload_path has left it, else measured. A run that is resumed therefore plans as before.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "comm/communicator.h"
#include "cost/cost_model.h"
#include "memory/offload_tier.h"
#include "train/config.h"

namespace weft {

bool offloads(const TrainConfig& config);  // memory.offload is not "none"

// memory.offload_path, or OUT.
std::filesystem::path offload_folder(const TrainConfig& config);

struct OffloadRate {
  double bytes_per_second =
      0;               // of one rank while all ranks of its host copy; the slower direction
  std::string source;  // "given", "measured", ...
};
// Opens the tier, too, and warns where the page cache cannot be passed by: what is wrong with the
// folder is known now. UserError, IoError. REQUIRES: offloads(config).
OffloadRate settle_offload_rate(const TrainConfig& config, std::int32_t ranks_on_host);
// The first rank settles it for all; every rank calls it.
OffloadRate share_offload_rate(Communicator& comm, const TrainConfig& config,
                               std::int32_t ranks_on_host);

// A new tier for each rank, in the folder that exists by then; empty when nothing is offloaded.
std::function<std::unique_ptr<OffloadTier>()> offload_tier_maker(const TrainConfig& config);

// What the planner must know, from the model's shape and the settled rate.
void add_offload_terms(const TrainConfig& config, CostModel& cost);

}  // namespace weft
