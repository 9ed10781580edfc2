#include "comm/mpi/transfer.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <exception>
#include <map>
#include <thread>
#include <utility>

#include "base/error.h"
#include "comm/mpi/mpi_call.h"

namespace weft::mpi_transport {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// Keeps now() + limit inside the clock's range.
constexpr nanoseconds kLongestWaitLimit = std::chrono::hours(24 * 365);
constexpr nanoseconds kLongestAnswer = std::chrono::seconds(1);

// A tag holds the lane and the size, so that a message never meets a receive of another size: Open
// MPI 4.1 writes beyond the end of a receive that is too short (shared memory, single copy).
int tag_of(int lane, std::int64_t bytes) { return static_cast<int>(bytes) * kLanesPerTag + lane; }
int payload_lane(Channel channel) { return static_cast<int>(channel); }
int sent_header_lane(Channel channel) { return kNumChannels + static_cast<int>(channel); }
int expected_header_lane(Channel channel) { return 2 * kNumChannels + static_cast<int>(channel); }

// Polls at full speed at first, then ever more rarely, so that waiting ranks leave the cores to
// those that compute.
class Backoff {
 public:
  explicit Backoff(bool crowded) : spin_(crowded ? microseconds(50) : microseconds(2000)) {}
  // True when the wait has become a long one.
  bool pause(bool progressed) {
    const auto now = CommClock::now();
    if (progressed || sleep_ == microseconds(0)) {
      if (progressed) idle_since_ = now;
      if (now - idle_since_ < spin_) {
        ::sched_yield();
        sleep_ = microseconds(0);
        return false;
      }
    }
    sleep_ = std::clamp(sleep_ * 2, microseconds(20), microseconds(200));
    std::this_thread::sleep_for(sleep_);
    return true;
  }

 private:
  const microseconds spin_;
  CommClock::time_point idle_since_ = CommClock::now();
  microseconds sleep_{0};
};

// Counts the time of its own life, also when an exception ends it.
class BlockedTime {
 public:
  explicit BlockedTime(ChannelStats& stats) : stats_(stats), start_(CommClock::now()) {}
  ~BlockedTime() { stats_.blocked += elapsed_between(start_, CommClock::now()); }
  BlockedTime(const BlockedTime&) = delete;
  BlockedTime& operator=(const BlockedTime&) = delete;

 private:
  ChannelStats& stats_;
  CommClock::time_point start_;
};

}  // namespace

void throw_failure(Monitor& monitor, const std::string& own) {
  const Failure failure = monitor.resolve();
  if (failure.rank == monitor.rank() && failure.reason == own) throw CommError(own);
  const std::string text = fmt::format("rank {} failed: {}", failure.rank, failure.reason);
  if (failure.rank == monitor.rank()) throw CommError(text);
  throw PeerFailure(text);
}

void throw_if_failed(Monitor& monitor) {
  if (monitor.failing()) throw_failure(monitor, {});
}

MpiTransfer::MpiTransfer(Lanes& lanes, Channel channel, const OpLabel& label,
                         std::span<const SendOp> sends, std::span<const RecvOp> recvs)
    : lanes_(lanes), channel_(channel), label_(label) {
  ops_.reserve(sends.size() + recvs.size());
  for (const RecvOp& recv : recvs) {
    add(recv.from, recv.bytes, recv.data == nullptr).recv_data = recv.data;
  }
  for (const SendOp& send : sends) {
    Op& op = add(send.to, send.bytes, send.data == nullptr);
    op.is_send = true;
    op.send_data = send.data;
  }
  if (!lanes_.check_messages) return;
  own_headers_.reserve(ops_.size());
  for (const Op& op : ops_) own_headers_.push_back(make_header(label_, Bytes(op.bytes)));
  peer_headers_.resize(ops_.size());
}

MpiTransfer::~MpiTransfer() {
  if (num_pending_ == 0) return;
  try {
    progress();
    if (num_pending_ == 0 && problem_.empty()) return;
    if (!lanes_.monitor.failing()) {
      const std::string report = dropped_report(open_transfer());
      if (std::uncaught_exceptions() > 0) {
        lanes_.monitor.submit_dropped(report);
      } else {
        lanes_.monitor.submit(report, true);
      }
    }
    withdraw();
  } catch (const std::exception& error) {
    lanes_.monitor.end_by_force(error.what());
  }
}

MpiTransfer::Op& MpiTransfer::add(Rank peer, Bytes bytes, bool is_null) {
  const auto where = [&] { return describe(label_); };
  const Rank me = lanes_.monitor.rank();
  WEFT_CHECK(peer.value() >= 0 && peer.value() < lanes_.monitor.size(),
             "comm: rank {} names rank {} of {} in \"{}\"", me, peer, lanes_.monitor.size(),
             where());
  WEFT_CHECK(bytes.value() >= 0 && !(is_null && bytes.value() > 0),
             "comm: rank {} gives {} bytes at {} for rank {} in \"{}\"", me, bytes,
             is_null ? "a null pointer" : "an address", peer, where());
  Op& op = ops_.emplace_back();
  op.peer = peer;
  op.bytes = bytes.value();
  return op;
}

void MpiTransfer::post() {
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    Op& op = ops_[i];
    LaneCounts& posted = lanes_.posted[static_cast<std::size_t>(op.peer.value())];
    auto& lane = op.is_send ? posted.sends : posted.recvs;
    op.lane_idx = lane[static_cast<std::size_t>(channel_)]++;
    if (lanes_.check_messages) post_headers(i);
    post_payload(i);
  }
}

MPI_Request& MpiTransfer::add_request(std::size_t op_idx, Part part) {
  slots_.push_back({op_idx, part});
  ++ops_[op_idx].num_pending;
  ++num_pending_;
  return requests_.emplace_back(MPI_REQUEST_NULL);
}

// A message of no bytes is one empty piece.
void MpiTransfer::post_payload(std::size_t op_idx) {
  const Op& op = ops_[op_idx];
  const int peer = op.peer.value();
  std::int64_t offset = 0;
  do {
    const int size = static_cast<int>(std::min(op.bytes - offset, lanes_.max_piece_bytes));
    const int tag = tag_of(payload_lane(channel_), size);
    MPI_Request& request = add_request(op_idx, Part::kPayload);
    if (op.is_send) {
      const auto* at = static_cast<const std::byte*>(op.send_data) + offset;
      check_mpi(MPI_Isend(at, size, MPI_BYTE, peer, tag, lanes_.data, &request), "MPI_Isend");
    } else {
      auto* at = static_cast<std::byte*>(op.recv_data) + offset;
      check_mpi(MPI_Irecv(at, size, MPI_BYTE, peer, tag, lanes_.data, &request), "MPI_Irecv");
    }
    offset += size;
  } while (offset < op.bytes);
}

void MpiTransfer::post_headers(std::size_t op_idx) {
  constexpr int kBytes = sizeof(MessageHeader);
  const Op& op = ops_[op_idx];
  const int peer = op.peer.value();
  const int sent_tag = tag_of(sent_header_lane(channel_), kBytes);
  const int expected_tag = tag_of(expected_header_lane(channel_), kBytes);
  const int own_tag = op.is_send ? sent_tag : expected_tag;
  const int peer_tag = op.is_send ? expected_tag : sent_tag;
  check_mpi(MPI_Irecv(&peer_headers_[op_idx], kBytes, MPI_BYTE, peer, peer_tag, lanes_.data,
                      &add_request(op_idx, Part::kPeerHeader)),
            "MPI_Irecv");
  check_mpi(MPI_Isend(&own_headers_[op_idx], kBytes, MPI_BYTE, peer, own_tag, lanes_.data,
                      &add_request(op_idx, Part::kOwnHeader)),
            "MPI_Isend");
}

bool MpiTransfer::progress() {
  if (num_pending_ == 0) return false;
  completed_.resize(requests_.size());
  statuses_.resize(requests_.size());
  int count = 0;
  const int result = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                                  completed_.data(), statuses_.data());
  if (result != MPI_ERR_IN_STATUS) check_mpi(result, "MPI_Testsome");
  if (count == MPI_UNDEFINED || count == 0) return false;
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const int error = result == MPI_ERR_IN_STATUS ? statuses_[at].MPI_ERROR : MPI_SUCCESS;
    complete(static_cast<std::size_t>(completed_[at]), error);
  }
  num_pending_ -= static_cast<std::size_t>(count);
  if (requests_.size() > 64 && num_pending_ < requests_.size() / 2) compact();
  return true;
}

void MpiTransfer::complete(std::size_t request_idx, int error) {
  const Slot& slot = slots_[request_idx];
  Op& op = ops_[slot.op_idx];
  --op.num_pending;
  if (withdrawing_ || !problem_.empty()) return;
  if (error != MPI_SUCCESS) {
    problem_ = fmt::format("comm: a message between ranks {} and {} in \"{}\" failed: MPI says {}",
                           lanes_.monitor.rank(), op.peer, describe(label_), mpi_error_text(error));
  } else if (slot.part == Part::kPeerHeader) {
    compare_headers(op, slot.op_idx);
  }
}

void MpiTransfer::compare_headers(const Op& op, std::size_t op_idx) {
  const MessageHeader &own = own_headers_[op_idx], &peer = peer_headers_[op_idx];
  if (own == peer) return;
  const MessageSide mine{lanes_.monitor.rank(), Bytes(own.bytes), describe(own)};
  const MessageSide theirs{op.peer, Bytes(peer.bytes), describe(peer)};
  problem_ = op.is_send ? mismatch_report(channel_, mine, theirs)
                        : mismatch_report(channel_, theirs, mine);
}

void MpiTransfer::compact() {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] == MPI_REQUEST_NULL) continue;
    requests_[kept] = requests_[i];
    slots_[kept++] = slots_[i];
  }
  requests_.resize(kept);
  slots_.resize(kept);
}

void MpiTransfer::wait() {
  Monitor& monitor = lanes_.monitor;
  const BlockedTime blocked(lanes_.stats[static_cast<std::size_t>(channel_)]);
  throw_if_failed(monitor);
  const auto start = CommClock::now();
  Backoff backoff(lanes_.crowded);
  bool shown = false, changed = true;  // whether the monitor knows what this rank waits for
  std::string reason;
  while (true) {
    const bool progressed = progress();
    changed = changed || progressed;
    if (num_pending_ == 0 || !problem_.empty() || monitor.failing()) break;
    if (!backoff.pause(progressed)) continue;
    if (changed) {
      monitor.set_waiting(WaitSummary{describe(label_), channel_, start, outstanding()});
      shown = true;
      changed = false;
    }
    reason = reason_to_stop(start);
    if (!reason.empty()) break;
  }
  if (!problem_.empty()) reason = problem_;
  if (!reason.empty()) monitor.submit(reason, true);
  // A failure that is known here may have taken messages away: nothing of this exchange counts.
  if (monitor.failing()) {
    withdraw();
    throw_failure(monitor, reason);
  }
  if (shown) monitor.set_waiting(std::nullopt);
  monitor.note_outside();
}

std::string MpiTransfer::reason_to_stop(CommClock::time_point start) {
  Monitor& monitor = lanes_.monitor;
  if (monitor.num_finished() > 0) {
    for (const Op& op : ops_) {
      if (op.num_pending == 0) continue;
      const auto counts = monitor.finished_counts(op.peer);
      if (!counts) continue;
      const auto& matching = op.is_send ? counts->recvs : counts->sends;
      if (matching[static_cast<std::size_t>(channel_)] <= op.lane_idx) {
        return finished_report(open_transfer(), op.peer, op.is_send, Bytes(op.bytes));
      }
    }
  }
  const nanoseconds limit = std::min(monitor.wait_limit(), kLongestWaitLimit);
  return CommClock::now() < start + limit ? std::string() : hang_report(start);
}

std::string MpiTransfer::hang_report(CommClock::time_point start) {
  Monitor& monitor = lanes_.monitor;
  const Nanoseconds waited = elapsed_between(start, CommClock::now());
  const auto activities = monitor.ask_all(std::min(monitor.wait_limit() / 4, kLongestAnswer));
  return timeout_report(open_transfer(), waited, monitor.wait_limit(),
                        [&](Rank rank) { return activities.at(rank); }) +
         show_unmatched();
}

// Without the checking mode this alone tells that two ranks disagree about a size.
std::string MpiTransfer::show_unmatched() const {
  std::string text;
  for (const OutstandingSum& sum : outstanding()) {
    if (sum.is_send) continue;
    int found = 0;
    MPI_Status status;
    check_mpi(MPI_Iprobe(sum.peer.value(), MPI_ANY_TAG, lanes_.data, &found, &status),
              "MPI_Iprobe");
    const int lane = status.MPI_TAG % kLanesPerTag;
    if (found == 0 || lane >= kNumChannels) continue;
    text += fmt::format(
        "\n  A message of {} B from rank {} on channel {} has arrived, for which rank {} has "
        "posted "
        "no receive of that size.",
        status.MPI_TAG / kLanesPerTag, sum.peer, channel_name(static_cast<Channel>(lane)),
        lanes_.monitor.rank());
  }
  return text;
}

std::vector<OutstandingSum> MpiTransfer::outstanding() const {
  std::map<std::pair<Rank, bool>, OutstandingSum> sums;
  for (const Op& op : ops_) {
    if (op.num_pending == 0) continue;
    OutstandingSum& sum = sums[{op.peer, op.is_send}];
    sum.peer = op.peer;
    sum.is_send = op.is_send;
    ++sum.count;
    sum.bytes += Bytes(op.bytes);
  }
  std::vector<OutstandingSum> result;
  for (const auto& [key, sum] : sums) result.push_back(sum);
  return result;
}

OpenTransfer MpiTransfer::open_transfer() const {
  return {lanes_.monitor.rank(), label_, channel_, outstanding()};
}

// Receives are cancelled, or end with the data that is under way. Sends end when their receiver, or
// its monitor, has received them. MPI cannot take a large send back, so if a receiver is stopped
// the buffers can never be given up safely, and the job ends.
void MpiTransfer::withdraw() {
  withdrawing_ = true;
  Monitor& monitor = lanes_.monitor;
  // Then all monitors receive what is left.
  const nanoseconds patience = monitor.await_decision();
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    const Slot& slot = slots_[i];
    const bool is_recv = slot.part == Part::kPeerHeader ||
                         (slot.part == Part::kPayload && !ops_[slot.op_idx].is_send);
    if (!is_recv || requests_[i] == MPI_REQUEST_NULL) continue;
    check_mpi(MPI_Cancel(&requests_[i]), "MPI_Cancel");
  }
  const auto deadline = CommClock::now() + patience;
  Backoff backoff(true);
  while (num_pending_ > 0) {
    if (CommClock::now() > deadline) monitor.end_stuck(show_stuck());
    backoff.pause(progress());
  }
}

std::string MpiTransfer::show_stuck() const {
  return fmt::format("{} of rank {} cannot be taken back", describe(label_), lanes_.monitor.rank());
}

}  // namespace weft::mpi_transport
