// weft-engine: the data plane. Started by `weft train`, or directly.
#include <cstdlib>

#include "base/error.h"
#include "base/log.h"
#include "cli/profile_command.h"
#include "cli/program.h"
#include "cli/train_command.h"
#include "machine/blas_choice.h"
#include "train/stop_signal.h"

namespace {

// weft passes its build id; two programs of different sources would not agree on plans and files.
void check_build_id() {
  const char* expected = std::getenv("WEFT_BUILD_ID");
  if (expected == nullptr || weft::build_id() == expected) return;
  weft::throw_user_error(
      "weft-engine is of build {}, but weft is of build {}: build both again (./run build)",
      weft::build_id(), expected);
}

}  // namespace

int main(int argc, char** argv) {
  weft::start_again_with_fitting_blas(argv);
  weft::install_stop_signals();
  try {
    check_build_id();
  } catch (const weft::UserError& error) {
    weft::log_error("{}", error.what());
    return 2;
  }
  CLI::App app("The data plane of Weft: trains and profiles. Usually started by weft.",
               "weft-engine");
  app.set_version_flag("--version", weft::version_text("weft-engine"));
  app.require_subcommand(1);
  weft::add_train_command(app);
  weft::add_profile_command(app);
  return weft::run_program(app, argc, argv);
}
