#include "bench/harness/suite.h"

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "base/log.h"

namespace weft::bench {

bool Selection::wants(std::string_view name) const {
  return prefixes.empty() || std::any_of(prefixes.begin(), prefixes.end(), [&](const auto& prefix) {
           return name.starts_with(prefix);
         });
}

Selection parse_selection(int argc, char** argv) {
  Selection selection;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--list") {
      selection.list = true;
    } else {
      WEFT_USER_CHECK(!word.starts_with("-"), "bench: unknown option '{}'; expected --list", word);
      selection.prefixes.emplace_back(word);
    }
  }
  return selection;
}

void Suite::add(std::string name, std::function<Row()> run) {
  entries_.push_back({std::move(name), std::move(run)});
}

void print_row(const Row& row) {
  fmt::print("{}\n", to_json_line(row));
  std::fflush(stdout);
}

int Suite::run(const Selection& selection) const {
  int exit_code = 0;
  for (const Entry& entry : entries_) {
    if (!selection.wants(entry.name)) continue;
    if (selection.list) {
      fmt::print("{}\n", entry.name);
      continue;
    }
    try {
      Row row = entry.run();
      row.name = entry.name;
      print_row(row);
    } catch (const std::exception& error) {
      log_error("bench {}: {}", entry.name, error.what());
      exit_code = 1;
    }
  }
  return exit_code;
}

}  // namespace weft::bench
