// One exchange of one rank over MPI. A message is its payload, in pieces of a bounded size, and in
// the checking mode two headers that cross: the sender says what it sends, the receiver what it
// expects, each at the moment it posts. Both compare, so both fail with both sides, and a send is
// complete only when its receive is posted.
#pragma once

#include <mpi.h>

#include <array>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/mpi/message_header.h"
#include "comm/mpi/monitor.h"
#include "comm/wait_report.h"

namespace weft::mpi_transport {

// Lanes are told apart by tags; see tag_of in transfer.cc.
inline constexpr int kLanesPerTag = 16;

// What the transfers of one communicator share; touched by the rank's own thread alone.
struct Lanes {
  Monitor& monitor;
  MPI_Comm data;
  bool check_messages;
  std::int64_t max_piece_bytes;
  bool crowded;                    // more ranks than cores: give way sooner
  std::vector<LaneCounts> posted;  // by peer
  std::array<ChannelStats, kNumChannels> stats{};
};

class MpiTransfer final : public Transfer {
 public:
  MpiTransfer(Lanes& lanes, Channel channel, const OpLabel& label, std::span<const SendOp> sends,
              std::span<const RecvOp> recvs);
  ~MpiTransfer() override;
  MpiTransfer(const MpiTransfer&) = delete;
  MpiTransfer& operator=(const MpiTransfer&) = delete;

  void post();
  void wait() override;

 private:
  struct Op {
    Rank peer;
    bool is_send = false;
    const void* send_data = nullptr;
    void* recv_data = nullptr;
    std::int64_t bytes = 0;
    std::int64_t lane_idx = 0;     // how many messages were posted on this lane before
    std::int32_t num_pending = 0;  // requests
  };
  enum class Part : std::uint8_t { kPayload, kOwnHeader, kPeerHeader };
  struct Slot {
    std::size_t op_idx;
    Part part;
  };

  Op& add(Rank peer, Bytes bytes, bool is_null);
  void post_payload(std::size_t op_idx);
  void post_headers(std::size_t op_idx);
  MPI_Request& add_request(std::size_t op_idx, Part part);
  bool progress();  // true: something completed. May set problem_
  void complete(std::size_t request_idx, int error);
  void compare_headers(const Op& op, std::size_t op_idx);
  void compact();
  std::string reason_to_stop(CommClock::time_point start);  // empty: go on waiting
  std::string hang_report(CommClock::time_point start);
  std::string show_unmatched() const;
  std::vector<OutstandingSum> outstanding() const;
  OpenTransfer open_transfer() const;
  void withdraw();  // afterwards MPI touches no buffer of this transfer
  std::string show_stuck() const;

  Lanes& lanes_;
  const Channel channel_;
  const OpLabel label_;
  std::vector<Op> ops_;
  std::vector<MPI_Request> requests_;
  std::vector<Slot> slots_;  // of the requests
  std::size_t num_pending_ = 0;
  std::vector<MessageHeader> own_headers_, peer_headers_;  // by op, in the checking mode
  std::vector<int> completed_;                             // of MPI_Testsome
  std::vector<MPI_Status> statuses_;
  std::string problem_;  // labels or sizes differ
  bool withdrawing_ = false;
};

// Throws what the first failure of the job means to this rank. `own` is the reason that the calling
// operation itself has just given, if it has.
[[noreturn]] void throw_failure(Monitor& monitor, const std::string& own);
void throw_if_failed(Monitor& monitor);

}  // namespace weft::mpi_transport
