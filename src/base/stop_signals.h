// The signals that ask a run to end: SIGTERM, SIGUSR1, SIGHUP and SIGINT. One list, because three
// places must agree on it: weft holds them back while weft-engine loads, weft passes them on to the
// ranks of an MPI job, and the ranks obey them.
#pragma once

#include <csignal>

namespace weft {

// Those that this process does not ignore: nohup ignores SIGHUP, and means it.
sigset_t stop_signals_in_use();

}  // namespace weft
