// Where a run starts: at step 0, or at the newest whole checkpoint of its folder. One rank decides
// and tells the others.
//
// Same configuration, same data order: the run goes on as if it had never stopped. What differs is
// shown. What would change the model's shape is refused; what would change which sequences a step
// holds is refused unless the user allows it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "checkpoint/checkpoint_folder.h"
#include "train/config.h"

namespace weft {

std::filesystem::path checkpoint_folder(const std::filesystem::path& out);  // OUT/checkpoints

// What a user may allow by `--allow NAME`.
struct Allowances {
  bool data_order = false;  // "data-order"
};
Allowances parse_allowances(const std::vector<std::string>& names);

struct ResumePoint {
  std::optional<CheckpointManifest> manifest;  // nullopt: a new run
  std::filesystem::path checkpoint;
  // True when the data order changed so that old positions mean nothing: reading starts again at
  // epoch 0 of the new order.
  bool restarts_data = false;
  std::vector<ConfigDifference> differences;  // effective configuration: then, now
  std::vector<std::string> notes;             // for people, in order
};

// Looks into OUT. UserError when the run cannot be continued as asked: another model shape, another
// data order without allowance, or checkpoints of which none is whole.
ResumePoint find_resume_point(const TrainConfig& config, const Hash128& corpus_hash,
                              const Allowances& allowances);

// The same decision for values already at hand; `source` names the checkpoint in messages.
void check_continuation(const TrainConfig& then, const TrainConfig& now, bool same_corpus,
                        const Allowances& allowances, const std::string& source,
                        ResumePoint& point);

}  // namespace weft
