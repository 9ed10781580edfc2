// One rank's side of what an MPI job knows about itself: a thread with a communicator of its own
// that carries failures, answers "what do you do?" for its rank, notices finished ranks, and after
// a failure receives what nobody wants any more, so that every send completes and no buffer is
// touched after its owner has gone.
//
// One failure is the first, the same on all ranks: a failing rank asks an arbiter (rank 0; if that
// does not answer in time the next one) and takes the decision that comes back. The thread also
// drives MPI's progress while the rank computes.
//
// Thread rule: the rank's own thread calls the public methods; the monitor thread runs the rest.
// Fields are guarded by mutex_, apart from atomics, constants, and those marked "monitor thread".
#pragma once

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "comm/activity.h"
#include "comm/mpi/notice.h"
#include "comm/mpi/session.h"

namespace weft::mpi_transport {

// What a rank waits for, as its reports show it.
struct WaitSummary {
  std::string label;
  Channel channel{};
  CommClock::time_point since;
  std::vector<OutstandingSum> outstanding;
};

class Monitor {
 public:
  // The communicators belong to the caller and outlive the monitor.
  Monitor(MPI_Comm data, MPI_Comm control, const WorldSettings& settings);
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  Rank rank() const { return rank_; }
  std::int32_t size() const { return size_; }
  std::chrono::nanoseconds wait_limit() const { return wait_limit_; }

  void record_post(Channel channel, const OpLabel& label, std::span<const SendOp> sends,
                   std::span<const RecvOp> recvs);
  void set_waiting(std::optional<WaitSummary> waiting);
  void note_outside();  // the rank has left comm

  // Cheap; true as soon as this rank knows of a failure, its own or another's.
  bool failing() const { return failing_.load(std::memory_order_acquire); }
  // Another rank's, or decided to be this one's.
  bool decided() const;
  // This rank fails. Asks the arbiter and returns; later reasons lose, apart from the final one
  // that follows a provisional one.
  void submit(std::string reason, bool final) noexcept;
  // A handle was dropped by an exception on its way: a provisional failure, unless there is one.
  void submit_dropped(std::string reason) noexcept;
  // REQUIRES: failing(). Returns when the job's first failure is known here and on its way to all.
  // Returns how long this rank then waits for others before it ends the job.
  std::chrono::nanoseconds await_decision();
  // The same, and its final reason, for which it waits a few seconds at most. A provisional failure
  // of this rank becomes final.
  Failure resolve();

  // 0 while every other rank is at work.
  std::int32_t num_finished() const { return num_finished_.load(std::memory_order_acquire); }
  std::optional<LaneCounts> finished_counts(Rank peer) const;

  // Asks every rank what it does; those that say nothing within `patience` are answered = false.
  // Includes this rank itself.
  std::map<Rank, RankActivity> ask_all(std::chrono::nanoseconds patience);

  // The body has returned: waits until all ranks have finished, or until there is a failure.
  void finish(const std::vector<LaneCounts>& counts_by_peer);
  // After a failure: waits until all ranks have left; ends the job if they do not come.
  void leave(const Failure& failure);
  // Prints `why`, ends all processes of the job.
  [[noreturn]] void end_by_force(const std::string& why) noexcept;
  // The same after a failure that is known, when `what` stands in the way of an orderly end.
  [[noreturn]] void end_stuck(const std::string& what) noexcept;

 private:
  using Lock = std::unique_lock<std::mutex>;
  struct Parcel {
    Rank to;
    std::vector<std::byte> bytes;
  };
  struct OpenRequest {
    std::vector<std::byte> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  // With the lock held.
  void ask_arbiters(Lock& lock);
  // The rank that knows the cause best speaks first, then one after the other.
  std::chrono::nanoseconds patience_after(const Failure& failure) const;
  void push(Rank to, const Notice& notice);
  void push_to_others(const Notice& notice);
  void decide(Failure failure, Rank arbiter, bool tell_others);
  RankActivity activity(CommClock::time_point now) const;
  bool all_others(const std::set<Rank>& ranks) const;

  // The monitor thread.
  void run() noexcept;
  bool run_once();  // false: stop
  void receive_notices();
  void handle(Rank from, const Notice& notice);
  void handle_failing(Rank from, const Failure& failure);
  void send_parcels();
  void drain();
  static void forget_completed(std::vector<OpenRequest>& requests);

  const MPI_Comm data_;
  const MPI_Comm control_;
  const std::chrono::nanoseconds wait_limit_;
  const std::chrono::microseconds interval_;
  Rank rank_;              // const after construction
  std::int32_t size_ = 1;  // const after construction

  std::atomic<bool> failing_ = false;
  std::atomic<std::int32_t> num_finished_ = 0;
  std::atomic<CommClock::time_point> outside_since_;

  mutable std::mutex mutex_;
  std::condition_variable work_;     // for the monitor thread
  std::condition_variable changed_;  // for the rank's thread
  PostLog posts_;                    // GUARDED_BY(mutex_)
  std::optional<WaitSummary> waiting_;
  bool body_returned_ = false;
  std::string dropped_;
  std::optional<Failure> submitted_;
  std::optional<Failure> decision_;
  Rank arbiter_{};  // who decided
  std::set<Rank> finished_, left_, silent_;
  std::map<Rank, LaneCounts> finished_counts_;
  std::int64_t query_ = 0;
  std::map<Rank, RankActivity> replies_;  // to query_
  std::deque<Parcel> outbox_;
  bool stopping_ = false;
  bool abandoned_ = false;  // stop even if something is still on its way
  bool stopped_ = false;    // the monitor thread has ended

  std::vector<OpenRequest> sending_;   // monitor thread
  std::vector<OpenRequest> draining_;  // monitor thread

  std::thread thread_;  // last: everything else is there when it starts
};

}  // namespace weft::mpi_transport
