// Runs a fuzz target over files, without libFuzzer: `plan_fuzz FILE_OR_FOLDER...`. A finding ends
// the program; no input at all is an error, so that a moved folder does not look like success.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/file.h"
#include "tests/fuzz/fuzz_input.h"

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  for (int i = 1; i < argc; ++i) {
    if (!fs::is_directory(argv[i])) {
      files.emplace_back(argv[i]);
      continue;
    }
    for (const auto& entry : fs::recursive_directory_iterator(argv[i])) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  if (files.empty()) {
    fmt::print(stderr, "{}: no inputs; give files or folders\n", argv[0]);
    return 2;
  }
  for (const fs::path& file : files) {
    fmt::print("{}\n", file.string());
    std::fflush(stdout);
    weft::fuzz::run_target(weft::MappedFile(file).bytes());
  }
  fmt::print("{} inputs\n", files.size());
  return 0;
}
