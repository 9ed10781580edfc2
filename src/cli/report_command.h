// weft report: one HTML page from runs and plans.
#pragma once

namespace CLI {
class App;
}

namespace weft {

// Registers the subcommand `report`. Its callback throws Weft's errors out of App::parse.
void add_report_command(CLI::App& app);

}  // namespace weft
