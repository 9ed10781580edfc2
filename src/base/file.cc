#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace weft {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

std::string system_message(std::string_view operation, const std::filesystem::path& path) {
  return fmt::format("cannot {} '{}': {}", operation, path.string(), std::strerror(errno));
}

// The path is wrong, missing or not ours: the user can name another.
[[noreturn]] void throw_open_error(std::string_view operation, const std::filesystem::path& path) {
  throw UserError(system_message(operation, path));
}

// The system failed while we wrote: disk full, quota, device error.
[[noreturn]] void throw_io_error(std::string_view operation, const std::filesystem::path& path) {
  throw IoError(system_message(operation, path));
}

std::filesystem::path temporary_name(const std::filesystem::path& target) {
  std::filesystem::path name = target;
  if (!name.has_filename()) name = name.parent_path();  // "dir/" -> "dir"
  name += fmt::format(".incomplete-{}", ::getpid());
  return name;
}

void sync_parent(const std::filesystem::path& path) {
  sync_directory(path.has_parent_path() ? path.parent_path() : std::filesystem::path("."));
}

}  // namespace

void sync_directory(const std::filesystem::path& directory) {
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;  // durability of the names only; the data is already on disk
  ::fsync(fd);
  ::close(fd);
}

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw_open_error("open", path);
  struct stat status{};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(fd);
    throw_user_error("cannot map '{}': not a regular file", path.string());
  }
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ > 0) {
    void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
    if (address != MAP_FAILED) data_ = static_cast<const std::byte*>(address);
  }
  const int map_errno = errno;
  ::close(fd);
  errno = map_errno;
  if (size_ > 0 && data_ == nullptr) throw_open_error("map", path);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

FileWriter::FileWriter(std::filesystem::path path) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd_ < 0) throw_open_error("create", path_);
  buffer_.reserve(kBufferBytes);
}

FileWriter::~FileWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void FileWriter::write_fully(const std::byte* data, std::size_t size) {
  while (size > 0) {
    const ssize_t written = ::write(fd_, data, size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_io_error("write", path_);
    data += written;
    size -= static_cast<std::size_t>(written);
  }
}

void FileWriter::write(std::span<const std::byte> data) {
  size_ += data.size();
  if (buffer_.size() + data.size() > kBufferBytes) flush();
  if (data.size() >= kBufferBytes) {
    write_fully(data.data(), data.size());
  } else {
    buffer_.append(reinterpret_cast<const char*>(data.data()), data.size());
  }
}

void FileWriter::write_at(std::uint64_t offset, std::span<const std::byte> data) {
  WEFT_CHECK(offset + data.size() <= size_, "write_at may only overwrite");
  flush();
  if (::pwrite(fd_, data.data(), data.size(), static_cast<off_t>(offset)) !=
      static_cast<ssize_t>(data.size())) {
    throw_io_error("write", path_);
  }
}

void FileWriter::flush() {
  write_fully(reinterpret_cast<const std::byte*>(buffer_.data()), buffer_.size());
  buffer_.clear();
}

void FileWriter::close() {
  flush();
  if (::fsync(fd_) != 0) throw_io_error("flush", path_);
  if (::close(std::exchange(fd_, -1)) != 0) throw_io_error("close", path_);
}

AtomicFile::AtomicFile(const std::filesystem::path& target) : target_(target) {
  std::error_code error;
  if (std::filesystem::is_symlink(target_, error)) {
    const auto resolved = std::filesystem::weakly_canonical(target_, error);
    if (!error) target_ = resolved;
  }
  WEFT_USER_CHECK(
      !std::filesystem::exists(target_, error) || std::filesystem::is_regular_file(target_, error),
      "cannot write '{}': it exists and is not a regular file", target.string());
  temporary_ = temporary_name(target_);
  writer_ = std::make_unique<FileWriter>(temporary_);
}

AtomicFile::~AtomicFile() {
  if (committed_) return;
  writer_.reset();
  std::error_code ignored;
  std::filesystem::remove(temporary_, ignored);
}

void AtomicFile::commit() {
  writer_->close();
  std::error_code error;
  std::filesystem::rename(temporary_, target_, error);
  if (error) {
    throw IoError(fmt::format("cannot rename '{}' to '{}': {}", temporary_.string(),
                              target_.string(), error.message()));
  }
  committed_ = true;
  sync_parent(target_);
}

AtomicDirectory::AtomicDirectory(std::filesystem::path target)
    : target_(std::move(target)), temporary_(temporary_name(target_)) {
  WEFT_USER_CHECK(!std::filesystem::exists(target_),
                  "'{}' already exists; remove it or choose another name", target_.string());
  std::error_code error;
  std::filesystem::remove_all(temporary_, error);
  std::filesystem::create_directories(temporary_, error);
  WEFT_USER_CHECK(!error, "cannot create directory '{}': {}", temporary_.string(), error.message());
}

AtomicDirectory::~AtomicDirectory() {
  if (committed_) return;
  std::error_code ignored;
  std::filesystem::remove_all(temporary_, ignored);
}

void AtomicDirectory::commit() {
  std::error_code error;
  std::filesystem::rename(temporary_, target_, error);
  WEFT_USER_CHECK(!error, "cannot rename '{}' to '{}': {}", temporary_.string(), target_.string(),
                  error.message());
  committed_ = true;
  sync_parent(target_);
}

void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> data) {
  AtomicFile file(path);
  file.writer().write(data);
  file.commit();
}

void write_file_atomically(const std::filesystem::path& path, std::string_view text) {
  write_file_atomically(path, std::as_bytes(std::span(text.data(), text.size())));
}

std::string read_text_file(const std::filesystem::path& path) {
  const MappedFile file(path);
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

}  // namespace weft
