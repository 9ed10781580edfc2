// InputFiles: the files of a build in a fixed order, found while reading.
//
// Inputs come in the order given; a directory is walked in byte order of its names, so the order
// depends on neither the file system nor the locale. Hidden entries (a leading dot) and everything
// that is no regular file are left out. A link to a file is read; a link to a directory inside a
// tree is not followed, so a tree cannot loop. Memory: the names of the directories on the current
// path.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace weft {

class InputFiles {
 public:
  // UserError when an input does not exist or is neither a regular file nor a directory.
  explicit InputFiles(std::vector<std::filesystem::path> inputs);

  std::optional<std::filesystem::path> next();
  std::int64_t num_unfollowed_links() const {
    return num_unfollowed_links_;
  }  // links to directories, so far

 private:
  struct Level {
    std::filesystem::path directory;
    std::vector<std::string> names;  // descending: the next one is the last
  };
  void enter(const std::filesystem::path& directory);

  std::vector<std::filesystem::path> inputs_;
  std::size_t next_input_ = 0;
  std::vector<Level> levels_;
  std::int64_t num_unfollowed_links_ = 0;
};

struct InputSize {
  std::int64_t num_files = 0;
  std::int64_t num_bytes = 0;  // on disk
};
InputSize measure_inputs(const std::vector<std::filesystem::path>& inputs);

// UserError when `output` lies inside one of the input directories: the build would read what it
// writes.
void refuse_output_inside_inputs(const std::filesystem::path& output,
                                 const std::vector<std::filesystem::path>& inputs);

}  // namespace weft
