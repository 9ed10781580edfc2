// main() of a bench program: runs the BLAS code that weft-engine would (machine/blas_choice.h);
// errors become a line on stderr and exit code 2.
#pragma once

#include <exception>

#include "base/log.h"
#include "machine/blas_choice.h"

namespace weft::bench {

template <class Run>
int bench_main(int argc, char** argv, Run run) {
  start_again_with_fitting_blas(argv);
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    log_error("{}", error.what());
    return 2;
  }
}

}  // namespace weft::bench
