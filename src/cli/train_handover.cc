#include "cli/train_handover.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/program.h"

namespace weft {
namespace {

std::filesystem::path engine_path() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  WEFT_USER_CHECK(!error, "cannot find this program's own folder: {}", error.message());
  const auto engine = self.parent_path() / "weft-engine";
  WEFT_USER_CHECK(
      std::filesystem::exists(engine),
      "training needs weft-engine beside weft, but '{}' does not exist; build it with ./run build "
      "(this build may have been configured with -DWEFT_DATA_PLANE=OFF)",
      engine.string());
  return engine;
}

[[noreturn]] void hand_over(const std::vector<std::string>& arguments) {
  const std::string engine = engine_path().string();
  std::vector<char*> argv;
  std::string command = "train";
  argv.push_back(const_cast<char*>(engine.c_str()));
  argv.push_back(command.data());
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  ::setenv("WEFT_BUILD_ID", build_id().c_str(), 1);
  ::execv(engine.c_str(), argv.data());
  throw_user_error("cannot start '{}': {}", engine, std::strerror(errno));
}

}  // namespace

void add_train_handover(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("train", "Train a model (starts weft-engine; see weft train --help)");
  command->prefix_command();  // everything after the name belongs to weft-engine
  command->set_help_flag();   // also --help
  command->callback([command] { hand_over(command->remaining()); });
}

}  // namespace weft
