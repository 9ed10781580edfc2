// ScratchFile: a file that never has a name, for data that nobody needs after the process ends.
//
// The system removes it however the process ends, by SIGKILL too. It is opened past the page cache
// (O_DIRECT), so that the disk and not memory holds what is written; where the file system has no
// such thing, what was written is flushed and evicted at once. File systems that live in memory are
// refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "base/units.h"

namespace weft {

// Pages of an open file that are in memory now.
Bytes count_cached_bytes(int fd);

// One thread at a time reads and writes.
class ScratchFile {
 public:
  static constexpr std::int64_t kAlignment = 4096;  // of offsets

  // UserError: no such folder, not writable, or one in memory (tmpfs, ramfs). `direct` false: use
  // the page cache and evict, as where O_DIRECT does not exist.
  explicit ScratchFile(std::filesystem::path folder, bool direct = true);
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  // REQUIRES: offset is a multiple of kAlignment. The file may be changed up to the next multiple
  // after the end of `data`. IoError names the folder: disk full, over a limit, device error.
  void write(std::int64_t offset, std::span<const std::byte> data);
  // IoError also when the file ends before.
  void read(std::int64_t offset, std::span<std::byte> data);

  bool direct() const { return direct_; }
  const std::filesystem::path& folder() const { return folder_; }
  Bytes page_cache_bytes() const { return count_cached_bytes(fd_); }

 private:
  void open_unnamed();
  void refuse_memory() const;
  bool takes_direct_writes();
  void write_all(std::int64_t offset, std::span<const std::byte> data);
  void read_all(std::int64_t offset, std::span<std::byte> data);
  void evict(std::int64_t offset, std::size_t bytes, bool written);

  struct Free {
    void operator()(void* memory) const;
  };
  std::filesystem::path folder_;
  int fd_ = -1;
  bool direct_;
  std::unique_ptr<std::byte, Free> detour_;  // aligned, for what is not
};

}  // namespace weft
