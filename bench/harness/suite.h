// The rows of one bench program, and its command line: [--list] [PREFIX...]. Rows whose names start
// with one of the prefixes run, all without a prefix; each is printed as one JSON line when done.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/harness/row.h"

namespace weft::bench {

struct Selection {
  bool list = false;
  std::vector<std::string> prefixes;
  bool wants(std::string_view name) const;
};

// UserError for an unknown option.
Selection parse_selection(int argc, char** argv);

class Suite {
 public:
  void add(std::string name, std::function<Row()> run);
  // Exit code: 0, or 1 when a row threw (the reason goes to stderr, the other rows still run).
  int run(const Selection& selection) const;

 private:
  struct Entry {
    std::string name;
    std::function<Row()> run;
  };
  std::vector<Entry> entries_;
};

void print_row(const Row& row);

}  // namespace weft::bench
