// weft simulate: what a run would do on hardware that one does not have.
#pragma once

namespace CLI {
class App;
}

namespace weft {

// Registers the subcommand `simulate`.
void add_simulate_command(CLI::App& app);

}  // namespace weft
