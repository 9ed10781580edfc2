#include "machine/disk_probe.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/random.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

// A file that has no name any more, or never had one.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::filesystem::path& directory) {
    std::string name = (directory / ".weft-doctor-XXXXXX").string();
    fd_ = ::mkostemp(name.data(), O_CLOEXEC);
    if (fd_ >= 0) ::unlink(name.c_str());
  }
  ~TemporaryFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_ = -1;
};

bool write_fully(int fd, const std::byte* data, std::size_t size) {
  while (size > 0) {
    const ssize_t written = ::write(fd, data, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    data += written;
    size -= static_cast<std::size_t>(written);
  }
  return true;
}

// Bytes that no file system can shrink.
std::vector<std::byte> random_bytes(std::size_t size) {
  const RandomStream stream(1, "disk probe");
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i + 8 <= size; i += 8) {
    const std::uint64_t bits = stream.bits(i);
    std::memcpy(bytes.data() + i, &bits, 8);
  }
  return bytes;
}

}  // namespace

std::optional<FileSystemSpace> file_system_space(const std::filesystem::path& path) {
  struct statvfs info{};
  if (::statvfs(path.c_str(), &info) != 0) return std::nullopt;
  const auto block = static_cast<std::int64_t>(info.f_frsize);
  return FileSystemSpace{.size = Bytes(static_cast<std::int64_t>(info.f_blocks) * block),
                         .free = Bytes(static_cast<std::int64_t>(info.f_bavail) * block)};
}

DiskSpeed measure_disk_speed(const std::filesystem::path& directory, Bytes most,
                             std::chrono::nanoseconds limit) {
  DiskSpeed speed;
  const auto fail = [&speed](const char* operation) {
    speed.error = fmt::format("{}: {}", operation, std::strerror(errno));
    return speed;
  };
  const TemporaryFile file(directory);
  if (file.fd() < 0) return fail("cannot make a file");
  const std::vector<std::byte> chunk = random_bytes(std::size_t{4} << 20);
  auto start = Clock::now();
  if (!write_fully(file.fd(), chunk.data(), 512) || ::fsync(file.fd()) != 0)
    return fail("cannot write");
  speed.fsync = Nanoseconds(std::chrono::nanoseconds(Clock::now() - start).count());

  start = Clock::now();
  while (speed.written < most && Clock::now() - start < limit) {
    const Bytes size =
        std::min(most - speed.written, Bytes(static_cast<std::int64_t>(chunk.size())));
    if (!write_fully(file.fd(), chunk.data(), static_cast<std::size_t>(size.value())))
      return fail("cannot write");
    // One fsync a chunk keeps the page cache from taking everything in and paying at the end.
    if (::fsync(file.fd()) != 0) return fail("cannot fsync");
    speed.written += size;
  }
  const double elapsed_s = std::chrono::duration<double>(Clock::now() - start).count();
  if (elapsed_s > 0)
    speed.write_bytes_per_s = static_cast<double>(speed.written.value()) / elapsed_s;
  return speed;
}

std::filesystem::path nearest_existing(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::path path = std::filesystem::absolute(directory, error);
  while (!std::filesystem::exists(path, error) && path.has_relative_path())
    path = path.parent_path();
  return path;
}

}  // namespace weft
