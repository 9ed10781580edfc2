// OUT/checkpoints: one folder per saved step. A checkpoint counts once its manifest lies in a
// folder under its own name: everything is written into step-NNNNNNNNN.incomplete, flushed, and
// renamed last, so a run killed at any moment leaves the earlier ones as they were. What a killed
// run left half-written is swept away by the next save.
//
// Functions of one process; ranks agree through checkpoint_io.h. Paths are named in every error.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_manifest.h"

namespace weft {

std::filesystem::path checkpoint_path(const std::filesystem::path& folder, std::int64_t step);
// Where a checkpoint is written before it counts.
std::filesystem::path incomplete_checkpoint_path(const std::filesystem::path& folder,
                                                 std::int64_t step);

// Steps of the folders that bear a checkpoint's name, whole or not, newest first. Empty when
// `folder` does not exist.
std::vector<std::int64_t> list_checkpoints(const std::filesystem::path& folder);

// Reads the manifest and checks every file's size, and with `checksums` every byte. UserError names
// what is missing, cut or changed.
CheckpointManifest read_checkpoint(const std::filesystem::path& checkpoint, bool checksums);

struct NewestCheckpoint {
  std::optional<CheckpointManifest> manifest;  // nullopt: there is no whole one
  std::filesystem::path path;
  std::vector<std::string> damaged;  // why each newer one was passed over
};
NewestCheckpoint find_newest_checkpoint(const std::filesystem::path& folder);

// Removes what killed saves left and makes the incomplete folder anew. IoError when the system
// refuses.
void begin_checkpoint(const std::filesystem::path& folder, std::int64_t step);
// Writes the manifest and lets the checkpoint count, replacing one of the same step.
void commit_checkpoint(const std::filesystem::path& folder, const CheckpointManifest& manifest);
void discard_checkpoint(const std::filesystem::path& folder, std::int64_t step) noexcept;

// Keeps the `keep_last` newest checkpoints up to `newest_step`; 0 keeps all. A removal that fails
// is a warning: nothing is lost by it.
void prune_checkpoints(const std::filesystem::path& folder, std::int64_t newest_step,
                       std::int64_t keep_last);

}  // namespace weft
