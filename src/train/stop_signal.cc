#include "train/stop_signal.h"

#include <csignal>
#include <cstring>
#include <initializer_list>

#include <unistd.h>

namespace weft {
namespace {

constexpr int kStopSignals[] = {SIGTERM, SIGUSR1, SIGHUP, SIGINT};
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
  sigset_t stop_signals;
  ::sigemptyset(&stop_signals);
  for (const int signal : kStopSignals) {
    struct sigaction previous{};
    ::sigaction(signal, nullptr, &previous);
    if (previous.sa_handler == SIG_IGN) continue;
    struct sigaction action{};
    action.sa_handler = on_stop_signal;
    action.sa_flags = SA_RESTART;  // no read or write is to fail because of a request
    ::sigemptyset(&action.sa_mask);
    ::sigaction(signal, &action, nullptr);
    ::sigaddset(&stop_signals, signal);
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
