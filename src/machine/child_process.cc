#include "machine/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

extern char** environ;

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kMostOutput = 64 << 10;

// A process group of its own, so that a time limit ends what the program started as well.
pid_t start(const std::vector<std::string>& command, int output, std::string& error) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, output, 1);
  ::posix_spawn_file_actions_adddup2(&actions, output, 2);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  pid_t pid = -1;
  const int failed = ::posix_spawnp(&pid, argv[0], &actions, &attributes, argv.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed == 0) return pid;
  error = std::strerror(failed);
  return -1;
}

// Reads until the other side closes; false when time is up.
bool read_until(int fd, Clock::time_point deadline, std::string& output) {
  char buffer[4096];
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd waited{.fd = fd, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&waited, 1, static_cast<int>(std::max<std::int64_t>(0, left)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    const std::size_t room = kMostOutput - output.size();
    output.append(buffer, std::min(room, static_cast<std::size_t>(got)));
  }
}

}  // namespace

ProgramAnswer ask_program(const std::vector<std::string>& command,
                          std::chrono::milliseconds limit) {
  ProgramAnswer answer;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    answer.output = std::strerror(errno);
    return answer;
  }
  const pid_t pid = start(command, ends[1], answer.output);
  ::close(ends[1]);
  if (pid >= 0) {
    answer.timed_out = !read_until(ends[0], Clock::now() + limit, answer.output);
    if (answer.timed_out) ::kill(-pid, SIGKILL);
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    answer.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  ::close(ends[0]);
  return answer;
}

std::optional<std::filesystem::path> find_program(const std::string& name,
                                                  const std::string& search_path) {
  std::size_t begin = 0;
  while (begin <= search_path.size()) {
    const std::size_t end = std::min(search_path.find(':', begin), search_path.size());
    const std::filesystem::path folder = search_path.substr(begin, end - begin);
    const std::filesystem::path candidate = folder / name;
    std::error_code error;
    if (!folder.empty() && std::filesystem::is_regular_file(candidate, error) &&
        ::access(candidate.c_str(), X_OK) == 0)
      return candidate;
    begin = end + 1;
  }
  return std::nullopt;
}

}  // namespace weft
