// Space and writing speed of the folder that results go to, and of /dev/shm.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "base/units.h"

namespace weft {

struct FileSystemSpace {
  Bytes size;
  Bytes free;  // for this user
};
// nullopt when the path does not exist.
std::optional<FileSystemSpace> file_system_space(const std::filesystem::path& path);

struct DiskSpeed {
  double write_bytes_per_s = 0;  // with the final fsync
  Nanoseconds fsync;             // of one small write: the fixed price of making something durable
  Bytes written;
  std::string error;  // why nothing could be written; empty when all went well
};

// Writes up to `most` bytes to a temporary file of `directory`, no longer than `limit`, and removes
// it.
DiskSpeed measure_disk_speed(const std::filesystem::path& directory, Bytes most,
                             std::chrono::nanoseconds limit);

// The folder itself, or the nearest one above it that exists: where it would be made.
std::filesystem::path nearest_existing(const std::filesystem::path& directory);

}  // namespace weft
