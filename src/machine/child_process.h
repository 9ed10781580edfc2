// Runs a program to ask it something (its version), with a time limit.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace weft {

struct ProgramAnswer {
  int exit_code = -1;  // 128 + n when signal n ended it, -1 when it could not be started
  bool timed_out = false;
  std::string output;  // stdout and stderr, at most 64 KiB
};

// The answer, or the reason why there is none in `output`. stdin is empty.
ProgramAnswer ask_program(const std::vector<std::string>& command, std::chrono::milliseconds limit);

// First executable of that name in a list like $PATH; nullopt when there is none.
std::optional<std::filesystem::path> find_program(const std::string& name,
                                                  const std::string& search_path);

}  // namespace weft
