#include "comm/mpi/mpi_world.h"

#include <mpi.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "comm/launch_place.h"
#include "comm/mpi/session.h"

namespace weft {
namespace {

// By then the failing rank has printed its reason: mpirun ends all others as soon as one process
// has left with an error.
constexpr std::chrono::milliseconds kSpeakLast{300};

// Without its launcher's support MPI makes a world of one out of every process.
void check_size(const LaunchPlace& place, std::int32_t mpi_size) {
  if (place.launcher == Launcher::kNone || place.size == mpi_size) return;
  throw_user_error(
      "{} started {} processes ({}), but MPI joined {} of them: start them with mpirun, or with "
      "srun --mpi=pmix; other launchers do not serve Open MPI",
      to_string(place.launcher), place.size, place.evidence, mpi_size);
}

// Says which rank it was when something calls exit() in the middle of a run: MPI then ends the
// other ranks without a word from them.
struct ExitWatch {
  std::atomic<std::int32_t> rank_at_work = -1;
};

ExitWatch& watch_exit() {
  auto* watch = new ExitWatch;  // until the process ends: exit handlers cannot be taken back
  const auto report = [](int code, void* data) {
    const std::int32_t rank = static_cast<ExitWatch*>(data)->rank_at_work;
    if (rank < 0) return;
    log_error("rank {} failed: something called exit({}) in the middle of its run", rank, code);
  };
  WEFT_CHECK(::on_exit(report, watch) == 0, "comm: no exit handler is left");
  return *watch;
}

class AtWork {
 public:
  AtWork(ExitWatch& watch, std::int32_t rank) : watch_(watch) { watch_.rank_at_work = rank; }
  ~AtWork() { watch_.rank_at_work = -1; }
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;

 private:
  ExitWatch& watch_;
};

}  // namespace

bool mpi_is_built_in() { return true; }

std::string mpi_library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  return std::string(text.data(), static_cast<std::size_t>(length));
}

void run_mpi_rank(const MpiWorldOptions& options, const std::function<void(Communicator&)>& body) {
  WEFT_USER_CHECK(options.wait_limit.count() > 0,
                  "comm: the wait limit is {} ns; it must be positive", options.wait_limit.count());
  const LaunchPlace place = find_launch_place([](const char* name) { return std::getenv(name); });
  try {
    mpi_transport::Session session;
    check_size(place, session.size());
    const AtWork at_work(watch_exit(), session.rank());
    mpi_transport::run_world(
        session, {.wait_limit = options.wait_limit, .check_messages = options.check_messages},
        body);
  } catch (const PeerFailure&) {
    std::this_thread::sleep_for(kSpeakLast);
    throw;
  }
}

}  // namespace weft
