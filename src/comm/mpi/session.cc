#include "comm/mpi/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "comm/mpi/monitor.h"
#include "comm/mpi/mpi_call.h"
#include "comm/mpi/mpi_communicator.h"
#include "comm/mpi/transfer.h"
#include "machine/core_count.h"

namespace weft::mpi_transport {
namespace {

MPI_Comm duplicate(MPI_Comm communicator) {
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(communicator, &copy), "MPI_Comm_dup");
  check_mpi(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return copy;
}

// A tag holds a size and a lane.
std::int64_t largest_tagged_size(MPI_Comm communicator) {
  void* value = nullptr;
  int found = 0;
  check_mpi(MPI_Comm_get_attr(communicator, MPI_TAG_UB, &value, &found), "MPI_Comm_get_attr");
  constexpr int kLeastTag = 32767;  // what the standard promises
  const int largest_tag = found != 0 ? *static_cast<const int*>(value) : kLeastTag;
  return largest_tag / kLanesPerTag - 1;
}

// Whether this host has more ranks than this process may use cores.
bool host_is_crowded(MPI_Comm communicator) {
  MPI_Comm host = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(communicator, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host),
            "MPI_Comm_split_type");
  int local_size = 1;
  check_mpi(MPI_Comm_size(host, &local_size), "MPI_Comm_size");
  check_mpi(MPI_Comm_free(&host), "MPI_Comm_free");
  return local_size > count_cores(system_text()).usable();
}

// See kTcpEagerBytes. Who set one of these knows the network better.
void ask_for_eager_tcp() {
  constexpr std::array kNames = {"OMPI_MCA_btl_tcp_eager_limit",
                                 "OMPI_MCA_btl_tcp_rndv_eager_limit",
                                 "OMPI_MCA_btl_tcp_max_send_size"};
  const auto is_set = [](const char* name) { return std::getenv(name) != nullptr; };
  if (std::any_of(kNames.begin(), kNames.end(), is_set)) return;
  const std::string bytes = std::to_string(kTcpEagerBytes);
  for (const char* name : kNames) ::setenv(name, bytes.c_str(), 1);
}

}  // namespace

std::string mpi_error_text(int result) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(result, text.data(), &length) != MPI_SUCCESS) {
    return fmt::format("error {}", result);
  }
  return std::string(text.data(), static_cast<std::size_t>(length));
}

void check_mpi(int result, std::string_view call) {
  if (result == MPI_SUCCESS) return;
  throw_comm_error("comm: {} failed: {}", call, mpi_error_text(result));
}

Session::Session() {
  // Waiting ranks must give way where ranks share cores; only mpirun knows when they do.
  ::setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
  ask_for_eager_tcp();
  int provided = MPI_THREAD_SINGLE;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
  if (provided < MPI_THREAD_MULTIPLE) {
    MPI_Finalize();
    throw_user_error(
        "this MPI gives thread level {} of {} (MPI_THREAD_MULTIPLE), which the mpi transport "
        "needs; use an Open MPI that is built with thread support, as Debian's is",
        provided, MPI_THREAD_MULTIPLE);
  }
  communicator_ = duplicate(MPI_COMM_WORLD);
  check_mpi(MPI_Comm_rank(communicator_, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(communicator_, &size_), "MPI_Comm_size");
}

Session::~Session() { MPI_Finalize(); }

void run_world(Session& session, const WorldSettings& settings,
               const std::function<void(Communicator&)>& body) {
  MPI_Comm data = duplicate(session.communicator());
  MPI_Comm control = duplicate(session.communicator());
  const bool crowded = host_is_crowded(data);
  std::exception_ptr own_error;
  std::optional<Failure> failure;
  {
    Monitor monitor(data, control, settings);
    Lanes lanes{.monitor = monitor,
                .data = data,
                .check_messages = settings.check_messages,
                .max_piece_bytes = std::min(settings.max_piece_bytes, largest_tagged_size(data)),
                .crowded = crowded,
                .posted = std::vector<LaneCounts>(static_cast<std::size_t>(session.size()))};
    try {
      MpiCommunicator comm(lanes);
      body(comm);
    } catch (const std::exception& error) {
      own_error = std::current_exception();
      monitor.submit(error.what(), true);
    } catch (...) {
      own_error = std::current_exception();
      monitor.submit("an exception that is not a std::exception", true);
    }
    if (!monitor.failing()) monitor.finish(lanes.posted);
    if (monitor.failing()) {
      failure = monitor.resolve();
      monitor.leave(*failure);
    }
  }
  if (!failure) {
    check_mpi(MPI_Comm_free(&data), "MPI_Comm_free");
    check_mpi(MPI_Comm_free(&control), "MPI_Comm_free");
    return;
  }
  // After a failure the communicators stay: a late notice must not meet a new world of their name.
  const std::string text = fmt::format("rank {} failed: {}", failure->rank, failure->reason);
  if (failure->rank != Rank(session.rank())) throw PeerFailure(text);
  if (own_error) std::rethrow_exception(own_error);
  throw CommError(text);
}

}  // namespace weft::mpi_transport
