// The signals that ask a run to end, as two facts that any thread may ask for.
//
// SIGTERM, SIGUSR1 and SIGHUP, and SIGINT for the first time, ask for a stop: the ranks finish the
// step they are in, save, and the program ends with exit code 75. A second SIGINT ends the process
// at once with 130. Batch systems send SIGUSR1 or SIGTERM some time before they kill.
//
// What a signal asks for is necessarily the process's own: this is the one mutable global of
// train/.
#pragma once

namespace weft {

// Takes the signals over and lets those through that a parent blocked (weft does while it hands
// over, so that none is lost while libraries load). Call first thing in main. A signal that was
// ignored before (nohup) stays ignored.
void install_stop_signals();

bool stop_requested();
const char* stop_signal_name();  // "SIGTERM"; "" when no stop was requested

}  // namespace weft
