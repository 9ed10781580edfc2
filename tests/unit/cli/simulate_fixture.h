// The command run in this process, in a folder of its own.
#pragma once

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cli/simulate_command.h"

namespace weft {

class SimulateCommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "weft-simulate-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string at(const std::string& name) const { return (folder_ / name).string(); }

  static std::string run(std::vector<std::string> arguments) {
    CLI::App app("weft");
    add_simulate_command(app);
    arguments.insert(arguments.begin(), "simulate");
    std::reverse(arguments.begin(), arguments.end());
    ::testing::internal::CaptureStdout();
    try {
      app.parse(arguments);
    } catch (...) {
      std::fflush(stdout);
      ::testing::internal::GetCapturedStdout();
      throw;
    }
    std::fflush(stdout);
    return ::testing::internal::GetCapturedStdout();
  }
  // A small run, with more flags, or with other values of its own.
  static std::vector<std::string> small(std::vector<std::string> more) {
    const std::vector<std::pair<std::string, std::string>> defaults{
        {"--model", "llama-7b"},
        {"--cluster", "h800"},
        {"--devices", "16"},
        {"--tp", "2"},
        {"--workload", "github"},
        {"--context", "32K"},
        {"--global-batch-tokens", "256K"}};
    for (const auto& [flag, value] : defaults) {
      if (std::find(more.begin(), more.end(), flag) == more.end())
        more.insert(more.end(), {flag, value});
    }
    return more;
  }
  static std::string error(const std::vector<std::string>& arguments) {
    try {
      run(arguments);
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  }

  std::filesystem::path folder_;
};

}  // namespace weft
