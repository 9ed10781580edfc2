// weft corpus build | stats | verify: makes a corpus of files, shows its lengths, checks its bytes.
#pragma once

namespace CLI {
class App;
}

namespace weft {

// Registers the subcommand `corpus`. The work is done in its callbacks, which throw Weft's errors
// out of App::parse.
void add_corpus_command(CLI::App& app);

}  // namespace weft
