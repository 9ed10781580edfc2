// `weft-engine profile`: measures this machine and writes the cost file that plans are made by.
#pragma once

#include <CLI/CLI.hpp>

namespace weft {

void add_profile_command(CLI::App& app);

}  // namespace weft
