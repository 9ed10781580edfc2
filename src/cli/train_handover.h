// `weft train ...` hands over to weft-engine, which lies beside this program and links libtorch.
#pragma once

#include <CLI/CLI.hpp>

namespace weft {

void add_train_handover(CLI::App& app);

}  // namespace weft
