// What the ranks of one thread world share: a lane per (source, destination, channel), and what
// each rank does now.
//
// A lane is a queue of operations of one kind, all sends or all receives: an operation that meets
// the other kind at the head is matched with it, so messages arrive in the order they were posted.
// Labels and sizes are compared then, and the rank that came second copies, straight from the
// sender's buffer into the receiver's. Large copies are made without the lock; their operations are
// kCopying meanwhile, and nobody lets go of such a buffer.
//
// Thread rule: all fields of World, and all of PendingTransfer and PostedOp once posted, are
// guarded by World::mutex_, apart from the constants marked so. Waiting ranks sleep on a condition
// variable of their own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/activity.h"
#include "comm/communicator.h"
#include "comm/thread/thread_world.h"

namespace weft::thread_transport {

using Clock = CommClock;

enum class OpState : std::uint8_t { kUnposted, kQueued, kCopying, kDone };

struct PendingTransfer;

struct PostedOp {
  PendingTransfer* owner = nullptr;      // const after construction
  Rank peer;                             // const after construction
  const std::byte* send_data = nullptr;  // const after construction
  std::byte* recv_data = nullptr;        // const after construction
  Bytes bytes;                           // const after construction
  bool is_send = false;                  // const after construction
  OpState state = OpState::kUnposted;
  PostedOp* previous = nullptr;      // in the lane
  PostedOp* next = nullptr;          // in the lane
  PostedOp* copy_partner = nullptr;  // on the operation that came second, when the copy is made
                                     // without the lock; touched by its own rank alone
};

// One exchange of one rank. `ops` never grows: lanes point into it.
struct PendingTransfer {
  Rank rank;          // const
  Channel channel{};  // const
  OpLabel label;      // const
  std::vector<PostedOp> ops;
  std::size_t num_pending = 0;  // ops that are not kDone
  std::size_t num_copying = 0;
};

// What a rank does now and did last; read by the reports of the others.
struct RankState {
  std::condition_variable wake;
  const PendingTransfer* waiting = nullptr;  // inside wait() for it
  Clock::time_point since{};                 // start of that wait, or of the last post
  PostLog posts;
  bool finished = false;  // its body returned
  // Not empty: an exception passed by and dropped a handle. Becomes the reason of an abort at the
  // rank's next call or end, unless the rank first says what the exception was.
  std::string dropped;
};

struct Failure {
  Rank rank;  // the first to fail
  std::string reason;
};

class World {
 public:
  explicit World(const ThreadWorldOptions& options);
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  std::int32_t size() const { return num_ranks_; }
  std::chrono::nanoseconds wait_limit() const { return wait_limit_; }

  // Throws CommError; then the transfer must be cancelled. sends and recvs: what ops were made of.
  void post(PendingTransfer& transfer, std::span<const SendOp> sends,
            std::span<const RecvOp> recvs);
  void wait(PendingTransfer& transfer);  // throws CommError; then the transfer is cancelled
  void cancel(PendingTransfer& transfer) noexcept;  // afterwards nobody touches its buffers
  void fail(Rank rank, std::string_view reason) noexcept;
  void finish(Rank rank);  // the rank's body has returned; it will make no more calls
  std::optional<Failure> failure() const;

 private:
  struct Lane {
    PostedOp* head = nullptr;
    PostedOp* tail = nullptr;
  };

  // All of these need mutex_ to be held.
  RankState& state_of(Rank rank) { return ranks_[static_cast<std::size_t>(rank.value())]; }
  Lane& lane_of(const PostedOp& op);
  void place(PostedOp& op);
  void enqueue(Lane& lane, PostedOp& op);
  void unlink(Lane& lane, PostedOp& op);
  void complete(PostedOp& op);
  void release(PendingTransfer& transfer, std::unique_lock<std::mutex>& lock);
  void withdraw_all(Rank rank);  // its queued ops; its next call or end fails the world
  RankActivity activity_of(Rank rank, Clock::time_point now) const;
  const PostedOp* op_nobody_will_match(const PendingTransfer& transfer) const;
  void set_failure(Rank rank, std::string reason);
  void throw_if_failed(Rank rank);

  const std::int32_t num_ranks_;
  const std::chrono::nanoseconds wait_limit_;

  mutable std::mutex mutex_;
  std::vector<Lane> lanes_;         // GUARDED_BY(mutex_); [source][destination][channel]
  std::vector<RankState> ranks_;    // GUARDED_BY(mutex_); never resized
  std::optional<Failure> failure_;  // GUARDED_BY(mutex_)
  std::int32_t num_finished_ = 0;   // GUARDED_BY(mutex_)
};

}  // namespace weft::thread_transport
