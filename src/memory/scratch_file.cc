#include "memory/scratch_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"

namespace weft {
namespace {

constexpr std::size_t kDetourBytes = std::size_t{1} << 20;
constexpr std::size_t kMostAtOnce = std::size_t{64} << 20;  // of one system call

constexpr std::size_t kAligned = ScratchFile::kAlignment;

std::size_t round_up(std::size_t bytes) { return (bytes + kAligned - 1) / kAligned * kAligned; }

bool is_aligned(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % kAligned == 0; }

}  // namespace

void ScratchFile::Free::operator()(void* memory) const { std::free(memory); }

ScratchFile::ScratchFile(std::filesystem::path folder, bool direct)
    : folder_(std::move(folder)),
      direct_(direct),
      detour_(static_cast<std::byte*>(std::aligned_alloc(kAligned, kDetourBytes))) {
  WEFT_CHECK(detour_ != nullptr, "no {} bytes of memory", kDetourBytes);
  refuse_memory();
  open_unnamed();
  if (direct_ && !takes_direct_writes()) direct_ = false;
}

ScratchFile::~ScratchFile() {
  if (fd_ >= 0) ::close(fd_);
}

void ScratchFile::refuse_memory() const {
  struct statfs info{};
  WEFT_USER_CHECK(::statfs(folder_.c_str(), &info) == 0,
                  "offload: cannot use the folder '{}': {}; set memory.offload_path to a folder on "
                  "a local disk",
                  folder_.string(), std::strerror(errno));
  const auto type = static_cast<std::uint32_t>(info.f_type);
  WEFT_USER_CHECK(
      type != TMPFS_MAGIC && type != RAMFS_MAGIC && type != HUGETLBFS_MAGIC,
      "offload: '{}' lies in memory (tmpfs or ramfs), so nothing would be saved by writing "
      "activations there; set memory.offload_path to a folder on a local disk",
      folder_.string());
}

void ScratchFile::open_unnamed() {
  fd_ = ::open(folder_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd_ < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT)) {
    // A file system without unnamed files: the name lives for two system calls.
    std::string name = (folder_ / ".weft-offload-XXXXXX").string();
    fd_ = ::mkostemp(name.data(), O_CLOEXEC);
    if (fd_ >= 0) ::unlink(name.c_str());
  }
  WEFT_USER_CHECK(fd_ >= 0,
                  "offload: cannot make a file in '{}': {}; set memory.offload_path to a folder "
                  "that can be written",
                  folder_.string(), std::strerror(errno));
}

bool ScratchFile::takes_direct_writes() {
  const int flags = ::fcntl(fd_, F_GETFL);
  if (flags < 0 || ::fcntl(fd_, F_SETFL, flags | O_DIRECT) != 0) return false;
  // Some file systems take the flag and refuse the writes.
  std::memset(detour_.get(), 0, kAligned);
  if (::pwrite(fd_, detour_.get(), kAligned, 0) >= 0 || errno != EINVAL) return true;
  ::fcntl(fd_, F_SETFL, flags);
  return false;
}

void ScratchFile::write(std::int64_t offset, std::span<const std::byte> data) {
  WEFT_CHECK(offset % kAlignment == 0, "offset {}", offset);
  std::size_t done = data.size();
  if (direct_) done = is_aligned(data.data()) ? data.size() / kAligned * kAligned : 0;
  write_all(offset, data.first(done));
  while (done < data.size()) {
    const std::size_t part = std::min(data.size() - done, kDetourBytes);
    std::memcpy(detour_.get(), data.data() + done, part);
    std::memset(detour_.get() + part, 0, round_up(part) - part);
    write_all(offset + static_cast<std::int64_t>(done), {detour_.get(), round_up(part)});
    done += part;
  }
  if (!direct_) evict(offset, data.size(), true);
}

void ScratchFile::read(std::int64_t offset, std::span<std::byte> data) {
  WEFT_CHECK(offset % kAlignment == 0, "offset {}", offset);
  std::size_t done = data.size();
  if (direct_) done = is_aligned(data.data()) ? data.size() / kAligned * kAligned : 0;
  read_all(offset, data.first(done));
  while (done < data.size()) {
    const std::size_t part = std::min(data.size() - done, kDetourBytes);
    read_all(offset + static_cast<std::int64_t>(done), {detour_.get(), round_up(part)});
    std::memcpy(data.data() + done, detour_.get(), part);
    done += part;
  }
  if (!direct_) evict(offset, data.size(), false);
}

void ScratchFile::write_all(std::int64_t offset, std::span<const std::byte> data) {
  const std::size_t total = data.size();
  while (!data.empty()) {
    const ssize_t written =
        ::pwrite(fd_, data.data(), std::min(data.size(), kMostAtOnce), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    // After a part of a block, a direct write cannot go on from an odd place: the disk is full.
    const bool odd = written > 0 && direct_ && static_cast<std::size_t>(written) % kAligned != 0;
    if (written <= 0 || odd) {
      const int reason = written < 0 ? errno : ENOSPC;
      throw IoError(fmt::format(
          "offload: cannot write {} of activations to a file in '{}': {}; make room there or set "
          "memory.offload_path to a folder on another disk",
          format_bytes(Bytes(static_cast<std::int64_t>(total))), folder_.string(),
          std::strerror(reason)));
    }
    offset += written;
    data = data.subspan(static_cast<std::size_t>(written));
  }
}

void ScratchFile::read_all(std::int64_t offset, std::span<std::byte> data) {
  const std::size_t total = data.size();
  while (!data.empty()) {
    const ssize_t got =
        ::pread(fd_, data.data(), std::min(data.size(), kMostAtOnce), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      throw IoError(fmt::format(
          "offload: cannot read {} of activations back from a file in '{}': {}",
          format_bytes(Bytes(static_cast<std::int64_t>(total))), folder_.string(),
          got < 0 ? std::strerror(errno)
                  : fmt::format("the file ends {} early",
                                format_bytes(Bytes(static_cast<std::int64_t>(data.size()))))));
    }
    offset += got;
    data = data.subspan(static_cast<std::size_t>(got));
  }
}

void ScratchFile::evict(std::int64_t offset, std::size_t bytes, bool written) {
  if (written && ::fdatasync(fd_) != 0) {
    throw IoError(fmt::format("offload: cannot flush activations to a file in '{}': {}",
                              folder_.string(), std::strerror(errno)));
  }
  ::posix_fadvise(fd_, static_cast<off_t>(offset), static_cast<off_t>(round_up(bytes)),
                  POSIX_FADV_DONTNEED);
}

Bytes count_cached_bytes(int fd) {
  struct stat info{};
  WEFT_CHECK(::fstat(fd, &info) == 0, "fstat: {}", std::strerror(errno));
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) return 0_B;
  void* mapped = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  WEFT_CHECK(mapped != MAP_FAILED, "mmap of {} bytes: {}", size, std::strerror(errno));
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> in_memory((size + page - 1) / page);
  const int status = ::mincore(mapped, size, in_memory.data());
  const int reason = errno;
  ::munmap(mapped, size);
  WEFT_CHECK(status == 0, "mincore: {}", std::strerror(reason));
  const auto pages = std::count_if(in_memory.begin(), in_memory.end(),
                                   [](unsigned char flags) { return (flags & 1) != 0; });
  return Bytes(static_cast<std::int64_t>(static_cast<std::size_t>(pages) * page));
}

}  // namespace weft
