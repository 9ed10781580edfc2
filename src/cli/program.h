// What both programs share: parsing with good messages, and the one place where errors become exit
// codes. Exit codes: 0 finished, 1 failed (the reason is the last line), 2 wrong usage,
// configuration or data; a command may end with one of its own (75: stopped, resumable).
#pragma once

#include <CLI/CLI.hpp>

#include <string>

namespace weft {

// Parses argv, runs the chosen command's callback and maps every outcome to an exit code.
int run_program(CLI::App& app, int argc, char** argv);

// "weft 0.1.0 (build 1a2b3c4d5e6f)"
std::string version_text(const std::string& program);
// Names the sources that both programs were built from; weft refuses a weft-engine of another
// build.
const std::string& build_id();

}  // namespace weft
