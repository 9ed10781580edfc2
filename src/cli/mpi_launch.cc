#include "cli/mpi_launch.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "base/log.h"

namespace weft {
namespace {

std::string find_on_path(std::string_view program) {
  const char* path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const std::size_t end = rest.find(':');
    const std::string candidate = (std::filesystem::path(rest.substr(0, end)) / program).string();
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  }
  throw_user_error(
      "--launch mpi needs {}, which is not on PATH; install Open MPI (Debian: apt-get install "
      "openmpi-bin), or use --launch threads",
      program);
}

int num_usable_cores() {
  cpu_set_t cores;
  if (::sched_getaffinity(0, sizeof(cores), &cores) != 0) return 1;
  return CPU_COUNT(&cores);
}

sigset_t signals_of_a_job() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGUSR1, SIGINT, SIGCHLD}) ::sigaddset(&signals, signal);
  return signals;
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
    } else if (signal == SIGINT || signal == SIGTERM || signal == SIGUSR1) {
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
  const auto command = mpirun_command(find_on_path("mpirun"), job, num_usable_cores());
  if (::geteuid() == 0) {
    for (const std::string& name : root_variables()) ::setenv(name.c_str(), "1", 1);
  }
  const sigset_t signals = signals_of_a_job();
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
