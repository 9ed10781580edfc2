#include "checkpoint/checkpoint_folder.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kIncomplete = ".incomplete";
constexpr std::string_view kRemoved = ".removed";

std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::string_view digits = std::string_view(name).substr(kPrefix.size());
  std::int64_t step = 0;
  const auto [rest, status] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  const bool whole = status == std::errc() && rest == digits.data() + digits.size();
  if (!whole || step < 0 || checkpoint_path("", step) != name) return std::nullopt;
  return step;
}

void check_io(const std::error_code& error, std::string_view operation, const fs::path& path) {
  if (error) {
    throw IoError(fmt::format("cannot {} '{}': {}", operation, path.string(), error.message()));
  }
}

fs::path with_suffix(fs::path path, std::string_view suffix) { return path += suffix; }

// Renamed first, so that a removal that is cut short leaves nothing under a checkpoint's name.
void remove_checkpoint(const fs::path& path, std::error_code& error) {
  const fs::path removed = with_suffix(path, kRemoved);
  fs::rename(path, removed, error);
  if (!error) fs::remove_all(removed, error);
}

// What a killed save or removal left; anything else in the folder is not ours.
void sweep(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const fs::path name = entry.path().filename();
    const bool left = name.extension() == kIncomplete || name.extension() == kRemoved;
    if (!left || !step_of(name.stem().string())) continue;
    std::error_code removal;
    fs::remove_all(entry.path(), removal);
    check_io(removal, "remove what an interrupted save left in", entry.path());
  }
}

}  // namespace

fs::path checkpoint_path(const fs::path& folder, std::int64_t step) {
  return folder / fmt::format("{}{:09}", kPrefix, step);
}

fs::path incomplete_checkpoint_path(const fs::path& folder, std::int64_t step) {
  return with_suffix(checkpoint_path(folder, step), kIncomplete);
}

std::vector<std::int64_t> list_checkpoints(const fs::path& folder) {
  std::vector<std::int64_t> steps;
  std::error_code error;
  if (!fs::exists(folder, error)) return steps;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (const auto step = step_of(entry.path().filename().string())) steps.push_back(*step);
  }
  WEFT_USER_CHECK(!error, "cannot read '{}': {}", folder.string(), error.message());
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

CheckpointManifest read_checkpoint(const fs::path& checkpoint, bool checksums) {
  const fs::path path = checkpoint / kManifestFile;
  WEFT_USER_CHECK(fs::exists(path), "'{}' has no {}: it was not written to its end",
                  checkpoint.string(), kManifestFile);
  CheckpointManifest manifest = decode_manifest(read_text_file(path), path.string());
  for (const CheckpointFile& file : manifest.files) {
    const fs::path name = checkpoint / file.name;
    WEFT_USER_CHECK(fs::exists(name), "'{}' is missing", name.string());
    const MappedFile content(name);
    WEFT_USER_CHECK(content.bytes().size() == static_cast<std::uint64_t>(file.bytes),
                    "'{}' has {} bytes, expected {}", name.string(), content.bytes().size(),
                    file.bytes);
    if (!checksums) continue;
    const std::uint64_t found = checksum64(content.bytes());
    WEFT_USER_CHECK(found == file.checksum, "'{}' is damaged: its checksum is {}, expected {}",
                    name.string(), hex64(found), hex64(file.checksum));
  }
  return manifest;
}

NewestCheckpoint find_newest_checkpoint(const fs::path& folder) {
  NewestCheckpoint newest;
  for (const std::int64_t step : list_checkpoints(folder)) {
    const fs::path path = checkpoint_path(folder, step);
    try {
      CheckpointManifest manifest = read_checkpoint(path, true);
      WEFT_USER_CHECK(manifest.position.step == step, "'{}' holds step {}", path.string(),
                      manifest.position.step);
      newest.manifest = std::move(manifest);
      newest.path = path;
      break;
    } catch (const Error& error) {
      newest.damaged.push_back(error.what());
    }
  }
  return newest;
}

void begin_checkpoint(const fs::path& folder, std::int64_t step) {
  std::error_code error;
  fs::create_directories(folder, error);
  check_io(error, "create", folder);
  sweep(folder);
  const fs::path path = incomplete_checkpoint_path(folder, step);
  fs::create_directory(path, error);
  check_io(error, "create", path);
}

void commit_checkpoint(const fs::path& folder, const CheckpointManifest& manifest) {
  const std::int64_t step = manifest.position.step;
  const fs::path incomplete = incomplete_checkpoint_path(folder, step);
  const fs::path target = checkpoint_path(folder, step);
  write_file_atomically(incomplete / kManifestFile, encode_manifest(manifest));
  std::error_code error;
  const bool replaces = fs::exists(target, error);
  if (replaces) {
    fs::rename(target, with_suffix(target, kRemoved), error);
    check_io(error, "rename", target);
  }
  fs::rename(incomplete, target, error);
  check_io(error, "rename", incomplete);
  sync_directory(folder);
  if (replaces) fs::remove_all(with_suffix(target, kRemoved), error);  // or the next save does
}

void discard_checkpoint(const fs::path& folder, std::int64_t step) noexcept {
  std::error_code ignored;  // the next save sweeps
  fs::remove_all(incomplete_checkpoint_path(folder, step), ignored);
}

void prune_checkpoints(const fs::path& folder, std::int64_t newest_step, std::int64_t keep_last) {
  if (keep_last == 0) return;
  std::int64_t kept = 0;
  for (const std::int64_t step : list_checkpoints(folder)) {
    if (step > newest_step || kept++ < keep_last) continue;
    std::error_code error;
    const fs::path path = checkpoint_path(folder, step);
    remove_checkpoint(path, error);
    if (error)
      log_warn("cannot remove the old checkpoint '{}': {}", path.string(), error.message());
  }
}

}  // namespace weft
