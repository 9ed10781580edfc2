// Files: memory-mapped reading and writing that is whole or absent.
//
// AtomicFile and AtomicDirectory write under a temporary name beside the target; commit() flushes
// to disk and renames. Destruction without commit removes the temporary. A reader never sees half a
// file. Every failure is a UserError that names the path, the operation and the system's reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace weft {

class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(
      const std::filesystem::path& path);  // read-only; an empty file maps to an empty span
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Sequential buffered writer to one file descriptor.
class FileWriter {
 public:
  explicit FileWriter(std::filesystem::path path);  // creates or truncates
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(std::span<const std::byte> data);
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }
  // Overwrites already written bytes (a header whose values are known last). Flushes first.
  void write_at(std::uint64_t offset, std::span<const std::byte> data);
  std::uint64_t size() const { return size_; }
  void flush();
  void close();  // flush, fsync, close; throws on failure. The destructor closes without fsync or
                 // throwing.

 private:
  void write_fully(const std::byte* data, std::size_t size);

  std::filesystem::path path_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
  std::string buffer_;
};

// A file that appears under its name, replacing an older one, only when complete. Refuses a target
// that is no regular file (a device would be replaced, not written to); follows a symbolic link.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& target);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  FileWriter& writer() { return *writer_; }
  void commit();

 private:
  std::filesystem::path target_;
  std::filesystem::path temporary_;
  std::unique_ptr<FileWriter> writer_;
  bool committed_ = false;
};

// A new directory that appears under its name only when complete. Refuses an existing target.
class AtomicDirectory {
 public:
  explicit AtomicDirectory(std::filesystem::path target);
  ~AtomicDirectory();
  AtomicDirectory(const AtomicDirectory&) = delete;
  AtomicDirectory& operator=(const AtomicDirectory&) = delete;

  const std::filesystem::path& path() const { return temporary_; }  // where to write
  void commit();

 private:
  std::filesystem::path target_;
  std::filesystem::path temporary_;
  bool committed_ = false;
};

// Whole file, written atomically (temporary name, fsync, rename).
void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> data);
void write_file_atomically(const std::filesystem::path& path, std::string_view text);
std::string read_text_file(const std::filesystem::path& path);

// Flushes a directory's names to disk, as far as the file system offers it.
void sync_directory(const std::filesystem::path& directory);

}  // namespace weft
