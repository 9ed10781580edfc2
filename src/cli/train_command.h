// `weft-engine train`: reads the configuration and runs the trainer.
#pragma once

#include <CLI/CLI.hpp>

namespace weft {

void add_train_command(CLI::App& app);

}  // namespace weft
