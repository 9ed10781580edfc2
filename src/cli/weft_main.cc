// weft: the control plane. No torch, starts in milliseconds.
#include "cli/corpus_command.h"
#include "cli/doctor_command.h"
#include "cli/plan_command.h"
#include "cli/program.h"
#include "cli/report_command.h"
#include "cli/simulate_command.h"
#include "cli/train_handover.h"

int main(int argc, char** argv) {
  CLI::App app("Weft trains large language models on sequences of every length at once.", "weft");
  app.set_version_flag("--version", weft::version_text("weft"));
  app.require_subcommand(1);
  weft::add_corpus_command(app);
  weft::add_doctor_command(app);
  weft::add_plan_command(app);
  weft::add_simulate_command(app);
  weft::add_report_command(app);
  weft::add_train_handover(app);
  return weft::run_program(app, argc, argv);
}
