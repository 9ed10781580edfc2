#include "cli/mpi_launch.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/log.h"
#include "base/stop_signals.h"
#include "machine/child_process.h"
#include "machine/core_count.h"

namespace weft {
namespace {

std::string find_mpirun() {
  const char* path = std::getenv("PATH");
  const auto found = find_program("mpirun", path == nullptr ? "" : path);
  WEFT_USER_CHECK(found.has_value(),
                  "--launch mpi needs mpirun, which is not on PATH; install Open MPI (Debian: "
                  "apt-get install openmpi-bin), or use --launch threads");
  return found->string();
}

// In the child, between fork and exec. A group of its own: Ctrl-C in a terminal reaches weft alone,
// which decides what it means.
[[noreturn]] void become(const std::vector<std::string>& command, pid_t parent,
                         const sigset_t& signals_before) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(EXIT_FAILURE);  // it died before the line above
  ::sigprocmask(SIG_SETMASK, &signals_before, nullptr);
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execv(argv[0], argv.data());
  ::_exit(127);
}

// Waits for the job and passes signals on. The signals are blocked, so none is lost or interrupts.
int follow(pid_t mpirun, const sigset_t& signals) {
  int num_interrupts = 0;
  while (true) {
    int status = 0;
    const pid_t ended = ::waitpid(mpirun, &status, WNOHANG);
    if (ended == mpirun && WIFEXITED(status)) return WEXITSTATUS(status);
    if (ended == mpirun && WIFSIGNALED(status)) return 128 + WTERMSIG(status);
    WEFT_CHECK(ended >= 0, "waiting for mpirun: {}", std::strerror(errno));
    const int signal = ::sigwaitinfo(&signals, nullptr);
    if (signal == SIGINT && ++num_interrupts > 1) {
      log_warn("interrupted again: ending the job at once");
      ::kill(mpirun, SIGTERM);
    } else if (signal > 0 && signal != SIGCHLD) {
      if (signal == SIGINT) log_info("interrupted: the step is finished and saved first");
      ::kill(mpirun, SIGUSR1);  // mpirun passes it on to every rank
    }
  }
}

}  // namespace

std::vector<std::string> mpirun_command(const std::string& mpirun, const MpiJob& job,
                                        int num_cores) {
  // Bound ranks would have one core for all their threads.
  std::vector<std::string> command{mpirun, "--bind-to", "none", "--oversubscribe"};
  if (job.num_ranks > num_cores) {
    command.insert(command.end(), {"--mca", "mpi_yield_when_idle", "1"});
  }
  command.insert(command.end(), {"-n", std::to_string(job.num_ranks), job.program, "train"});
  command.insert(command.end(), job.arguments.begin(), job.arguments.end());
  return command;
}

std::vector<std::string> root_variables() {
  return {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"};
}

int run_mpi_job(const MpiJob& job) {
  const auto command = mpirun_command(find_mpirun(), job, count_cores(system_text()).usable());
  if (::geteuid() == 0) {
    for (const std::string& name : root_variables()) ::setenv(name.c_str(), "1", 1);
  }
  sigset_t signals = stop_signals_in_use();
  ::sigaddset(&signals, SIGCHLD);
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, &signals, &before);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  WEFT_USER_CHECK(child >= 0, "cannot start mpirun: {}", std::strerror(errno));
  if (child == 0) become(command, parent, before);
  const int code = follow(child, signals);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  WEFT_USER_CHECK(code != 127, "cannot start '{}'", command[0]);
  return code;
}

}  // namespace weft
