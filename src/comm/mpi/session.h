// One process's membership in an MPI job: MPI_Init_thread to MPI_Finalize. Worlds (one per run; the
// tests make many) are duplicated from it.
#pragma once

#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <functional>

#include "comm/communicator.h"

namespace weft::mpi_transport {

class Session {
 public:
  Session();   // UserError: no MPI_THREAD_MULTIPLE
  ~Session();  // MPI_Finalize
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  std::int32_t rank() const { return rank_; }
  std::int32_t size() const { return size_; }
  MPI_Comm communicator() const { return communicator_; }

 private:
  MPI_Comm communicator_ = MPI_COMM_NULL;
  std::int32_t rank_ = 0;
  std::int32_t size_ = 1;
};

// What a piece may measure at most so that Open MPI sends it over TCP at once, as the session asks
// it to, and its own header. Larger messages wait until their receiver asks for the rest, and that
// question queues behind whatever the connection carries the other way: two ranks that send to each
// other then take turns, and a link that carries both directions at once is half used.
inline constexpr std::int64_t kTcpEagerBytes = std::int64_t{256} << 10;
inline constexpr std::int64_t kTcpHeaderBytes = 1024;

struct WorldSettings {
  std::chrono::nanoseconds wait_limit = std::chrono::seconds(60);
  bool check_messages = true;
  // A payload goes in pieces of at most this size: MPI counts in int, and after a failure a piece
  // that nobody wants any more must fit into memory.
  std::int64_t max_piece_bytes = kTcpEagerBytes - kTcpHeaderBytes;
  // How often the monitor thread looks; see docs/comm.md for what it costs.
  std::chrono::microseconds monitor_interval{1000};
};

// Runs body as this process's rank in a new world of all processes of the session; see
// run_mpi_rank. All processes call it, in the same order.
void run_world(Session& session, const WorldSettings& settings,
               const std::function<void(Communicator&)>& body);

}  // namespace weft::mpi_transport
