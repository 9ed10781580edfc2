// main() of a bench program: errors become a line on stderr and exit code 2.
#pragma once

#include <exception>

#include "base/log.h"

namespace weft::bench {

template <class Run>
int bench_main(int argc, char** argv, Run run) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    log_error("{}", error.what());
    return 2;
  }
}

}  // namespace weft::bench
