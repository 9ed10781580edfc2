#include "corpus/source_tree.h"

#include <algorithm>
#include <functional>
#include <system_error>

#include "base/error.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

bool is_inside(const fs::path& path, const fs::path& directory) {
  const auto [in_directory, in_path] =
      std::mismatch(directory.begin(), directory.end(), path.begin(), path.end());
  return in_directory == directory.end();
}

}  // namespace

InputFiles::InputFiles(std::vector<fs::path> inputs) : inputs_(std::move(inputs)) {
  for (const fs::path& input : inputs_) {
    std::error_code error;
    const fs::file_status status = fs::status(input, error);
    WEFT_USER_CHECK(fs::exists(status), "cannot read the input '{}': {}", input.string(),
                    error ? error.message() : "No such file or directory");
    WEFT_USER_CHECK(fs::is_regular_file(status) || fs::is_directory(status),
                    "the input '{}' is neither a regular file nor a directory; write its content "
                    "to a file first",
                    input.string());
  }
}

std::optional<fs::path> InputFiles::next() {
  for (;;) {
    if (levels_.empty()) {
      if (next_input_ == inputs_.size()) return std::nullopt;
      const fs::path input = inputs_[next_input_++];
      if (!fs::is_directory(input)) return input;
      enter(input);
      continue;
    }
    Level& level = levels_.back();
    if (level.names.empty()) {
      levels_.pop_back();
      continue;
    }
    const fs::path path = level.directory / level.names.back();
    level.names.pop_back();
    std::error_code ignored;  // a dangling link is no regular file
    const fs::file_status status = fs::status(path, ignored);
    if (fs::is_regular_file(status)) return path;
    if (!fs::is_directory(status)) continue;
    if (fs::is_symlink(fs::symlink_status(path, ignored))) {
      ++num_unfollowed_links_;
    } else {
      enter(path);
    }
  }
}

void InputFiles::enter(const fs::path& directory) {
  Level level{directory, {}};
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (!name.starts_with('.')) level.names.push_back(std::move(name));
  }
  WEFT_USER_CHECK(!error, "cannot list the directory '{}': {}", directory.string(),
                  error.message());
  std::sort(level.names.begin(), level.names.end(), std::greater<>());
  levels_.push_back(std::move(level));
}

InputSize measure_inputs(const std::vector<fs::path>& inputs) {
  InputSize size;
  InputFiles files(inputs);
  while (const auto path = files.next()) {
    std::error_code error;
    const auto bytes = fs::file_size(*path, error);
    ++size.num_files;
    if (!error) size.num_bytes += static_cast<std::int64_t>(bytes);
  }
  return size;
}

void refuse_output_inside_inputs(const fs::path& output, const std::vector<fs::path>& inputs) {
  const fs::path place = fs::weakly_canonical(fs::absolute(output));
  for (const fs::path& input : inputs) {
    if (!fs::is_directory(input)) continue;
    WEFT_USER_CHECK(
        !is_inside(place, fs::canonical(input)),
        "the output '{}' lies inside the input '{}', which would read it back; choose an output "
        "outside of it",
        output.string(), input.string());
  }
}

}  // namespace weft
