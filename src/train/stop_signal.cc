#include "train/stop_signal.h"

#include <csignal>
#include <cstring>

#include <unistd.h>

#include "base/stop_signals.h"

namespace weft {
namespace {

constexpr int kExitInterrupted = 128 + SIGINT;

// Lock-free for signal handlers and threads alike.
volatile std::sig_atomic_t requested_by = 0;
volatile std::sig_atomic_t num_interrupts = 0;

void tell(const char* text) {
  // Async-signal-safe; a closed stderr is no reason to fail.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text, std::strlen(text));
}

void on_stop_signal(int signal) {
  if (signal == SIGINT) {
    num_interrupts = num_interrupts + 1;
    if (num_interrupts > 1) ::_exit(kExitInterrupted);
    tell("weft: interrupted: finishing this step, then saving; once more to leave at once\n");
  }
  if (requested_by == 0) requested_by = signal;
}

}  // namespace

void install_stop_signals() {
  const sigset_t stop_signals = stop_signals_in_use();
  for (int signal = 1; signal < NSIG; ++signal) {
    if (::sigismember(&stop_signals, signal) != 1) continue;
    struct sigaction action{};
    action.sa_handler = on_stop_signal;
    action.sa_flags = SA_RESTART;  // no read or write is to fail because of a request
    ::sigemptyset(&action.sa_mask);
    ::sigaction(signal, &action, nullptr);
  }
  ::sigprocmask(SIG_UNBLOCK, &stop_signals, nullptr);
}

bool stop_requested() { return requested_by != 0; }

const char* stop_signal_name() {
  switch (requested_by) {
    case SIGTERM:
      return "SIGTERM";
    case SIGUSR1:
      return "SIGUSR1";
    case SIGHUP:
      return "SIGHUP";
    case SIGINT:
      return "SIGINT";
    default:
      return "";
  }
}

}  // namespace weft
