// weft doctor: what this machine can do for Weft, with a verdict and an advice on each part.
#pragma once

namespace CLI {
class App;
}

namespace weft {

// Registers the subcommand `doctor`. Its callback throws Error (exit code 1) when a check found a
// problem.
void add_doctor_command(CLI::App& app);

}  // namespace weft
