// weft plan: plans one step for a corpus or a file of lengths, and says what the plan costs and how
// far from the optimum it can be.
#pragma once

namespace CLI {
class App;
}

namespace weft {

// Registers the subcommand `plan`. The work is done in its callback, which throws Weft's errors out
// of App::parse.
void add_plan_command(CLI::App& app);

}  // namespace weft
