#include "comm/mpi/mpi_world.h"

#include <mpi.h>

#include <array>
#include <cstdlib>
#include <thread>

#include "base/error.h"
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
    mpi_transport::run_world(
        session, {.wait_limit = options.wait_limit, .check_messages = options.check_messages},
        body);
  } catch (const PeerFailure&) {
    std::this_thread::sleep_for(kSpeakLast);
    throw;
  }
}

}  // namespace weft
