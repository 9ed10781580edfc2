// The rank's own thread's side; monitor_thread.cc is the other.
#include "comm/mpi/monitor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "base/log.h"
#include "comm/mpi/mpi_call.h"

namespace weft::mpi_transport {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

// A live monitor answers within its interval; on a crowded machine within a few time slices.
constexpr nanoseconds kArbiterPatience = seconds(1);
// From a dropped handle to the catch of the exception that dropped it.
constexpr nanoseconds kReasonPatience = seconds(2);
constexpr nanoseconds kLongestLeave = seconds(20);
constexpr milliseconds kStopPatience{2000};

}  // namespace

Monitor::Monitor(MPI_Comm data, MPI_Comm control, const WorldSettings& settings)
    : data_(data),
      control_(control),
      wait_limit_(settings.wait_limit),
      interval_(settings.monitor_interval),
      outside_since_(CommClock::now()) {
  int rank = 0;
  check_mpi(MPI_Comm_rank(control_, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(control_, &size_), "MPI_Comm_size");
  rank_ = Rank(rank);
  thread_ = std::thread([this] { run(); });
}

Monitor::~Monitor() {
  {
    Lock lock(mutex_);
    stopping_ = true;
    work_.notify_one();
    // What is on its way to a rank that is gone never arrives.
    if (!changed_.wait_for(lock, kStopPatience, [&] { return stopped_; })) abandoned_ = true;
    work_.notify_one();
  }
  thread_.join();
}

void Monitor::record_post(Channel channel, const OpLabel& label, std::span<const SendOp> sends,
                          std::span<const RecvOp> recvs) {
  const std::scoped_lock lock(mutex_);
  const auto now = CommClock::now();
  outside_since_ = now;
  posts_.record(channel, label, sends, recvs, now);
}

void Monitor::set_waiting(std::optional<WaitSummary> waiting) {
  const std::scoped_lock lock(mutex_);
  waiting_ = std::move(waiting);
}

void Monitor::note_outside() { outside_since_ = CommClock::now(); }

bool Monitor::decided() const {
  const std::scoped_lock lock(mutex_);
  return decision_.has_value();
}

void Monitor::submit(std::string reason, bool final) noexcept {
  const std::scoped_lock lock(mutex_);
  if (decision_ && (decision_->rank != rank_ || decision_->final)) return;
  if (submitted_ && (submitted_->final || !final)) return;
  submitted_ = Failure{rank_, std::move(reason), final};
  failing_.store(true, std::memory_order_release);
  const Rank arbiter = decision_ ? arbiter_ : Rank(0);
  if (arbiter == rank_) {
    decide(*submitted_, rank_, true);
  } else {
    push(arbiter, {.kind = NoticeKind::kFailing, .failure = *submitted_});
  }
}

void Monitor::submit_dropped(std::string reason) noexcept {
  {
    const std::scoped_lock lock(mutex_);
    if (dropped_.empty()) dropped_ = reason;
  }
  submit(std::move(reason), false);
}

nanoseconds Monitor::await_decision() {
  Lock lock(mutex_);
  ask_arbiters(lock);
  return patience_after(*decision_);
}

void Monitor::ask_arbiters(Lock& lock) {
  WEFT_CHECK(submitted_ || decision_, "comm: nothing has failed");
  for (std::int32_t candidate = 0; !decision_; ++candidate) {
    const Rank arbiter(candidate);
    if (arbiter == rank_) return decide(*submitted_, rank_, true);
    if (silent_.contains(arbiter)) continue;
    // Rank 0 was asked by submit().
    if (candidate > 0) push(arbiter, {.kind = NoticeKind::kFailing, .failure = *submitted_});
    changed_.wait_for(lock, kArbiterPatience, [&] { return decision_.has_value(); });
  }
}

Failure Monitor::resolve() {
  Lock lock(mutex_);
  ask_arbiters(lock);
  if (decision_->rank != rank_) {
    changed_.wait_for(lock, kReasonPatience, [&] { return decision_->final; });
  } else if (!decision_->final) {
    const std::string reason = decision_->reason;
    lock.unlock();
    submit(reason, true);
    lock.lock();
    changed_.wait_for(lock, kArbiterPatience, [&] { return decision_->final; });
  }
  return *decision_;
}

std::optional<LaneCounts> Monitor::finished_counts(Rank peer) const {
  const std::scoped_lock lock(mutex_);
  const auto found = finished_counts_.find(peer);
  return found == finished_counts_.end() ? std::nullopt : std::optional(found->second);
}

std::map<Rank, RankActivity> Monitor::ask_all(nanoseconds patience) {
  Lock lock(mutex_);
  ++query_;
  replies_.clear();
  push_to_others({.kind = NoticeKind::kQuery, .query = query_});
  const auto complete = [&] {
    return decision_.has_value() || replies_.size() + 1 == static_cast<std::size_t>(size_);
  };
  changed_.wait_for(lock, patience, complete);
  std::map<Rank, RankActivity> replies = replies_;
  replies[rank_] = activity(CommClock::now());
  for (std::int32_t i = 0; i < size_; ++i) {
    if (replies.contains(Rank(i))) continue;
    replies[Rank(i)].answered = false;
    if (!decision_) silent_.insert(Rank(i));
  }
  return replies;
}

void Monitor::finish(const std::vector<LaneCounts>& counts_by_peer) {
  Lock lock(mutex_);
  body_returned_ = true;
  for (std::int32_t i = 0; i < size_; ++i) {
    if (Rank(i) == rank_) continue;
    push(Rank(i),
         {.kind = NoticeKind::kFinished, .counts = counts_by_peer[static_cast<std::size_t>(i)]});
  }
  changed_.wait(lock, [&] { return failing() || all_others(finished_); });
}

void Monitor::leave(const Failure& failure) {
  Lock lock(mutex_);
  body_returned_ = true;
  push_to_others({.kind = NoticeKind::kLeft});
  const nanoseconds patience = patience_after(failure);
  if (changed_.wait_for(lock, patience, [&] { return all_others(left_); })) return;
  std::string missing;
  for (std::int32_t i = 0; i < size_; ++i) {
    if (Rank(i) == rank_ || left_.contains(Rank(i))) continue;
    missing += fmt::format("{}{}", missing.empty() ? "" : ", ", i);
  }
  lock.unlock();
  end_by_force(fmt::format(
      "rank {} failed: {}\n  Ending the whole job: rank {} did not leave "
      "within {} after that.",
      failure.rank, failure.reason, missing, format_duration(Nanoseconds(patience.count()))));
}

nanoseconds Monitor::patience_after(const Failure& failure) const {
  const milliseconds turn(failure.rank == rank_ ? 0 : 500 + 100 * std::min(rank_.value(), 20));
  return std::min(wait_limit_ / 2, kLongestLeave) + turn;
}

void Monitor::end_by_force(const std::string& why) noexcept {
  log_error("{}", why);
  {
    const std::scoped_lock lock(mutex_);
    push_to_others({.kind = NoticeKind::kEnd});
  }
  // Ranks that can hear end by themselves, whatever they do with signals.
  std::this_thread::sleep_for(milliseconds(200));
  MPI_Abort(control_, EXIT_FAILURE);
  std::abort();  // not reached
}

void Monitor::end_stuck(const std::string& what) noexcept {
  std::string cause;
  {
    const std::scoped_lock lock(mutex_);
    const auto& failure = decision_ ? decision_ : submitted_;
    if (failure) cause = fmt::format("rank {} failed: {}", failure->rank, failure->reason);
  }
  end_by_force(fmt::format("{}\n  Ending the whole job: {}.", cause, what));
}

void Monitor::push(Rank to, const Notice& notice) {
  outbox_.push_back({to, encode(notice)});
  work_.notify_one();
}

void Monitor::push_to_others(const Notice& notice) {
  for (std::int32_t i = 0; i < size_; ++i) {
    if (Rank(i) != rank_) push(Rank(i), notice);
  }
}

void Monitor::decide(Failure failure, Rank arbiter, bool tell_others) {
  const bool first = !decision_;
  const bool completes =
      decision_ && decision_->rank == failure.rank && !decision_->final && failure.final;
  if (!first && !completes) return;
  decision_ = std::move(failure);
  arbiter_ = arbiter;
  failing_.store(true, std::memory_order_release);
  if (tell_others) push_to_others({.kind = NoticeKind::kDecision, .failure = *decision_});
  changed_.notify_all();
  work_.notify_one();
}

RankActivity Monitor::activity(CommClock::time_point now) const {
  RankActivity activity{
      .finished = body_returned_,
      .waiting = waiting_.has_value(),
      .since = elapsed_between(waiting_ ? waiting_->since : outside_since_.load(), now),
      .dropped = dropped_,
      .posts = posts_.newest_first(now)};
  if (!waiting_) return activity;
  activity.wait_label = waiting_->label;
  activity.wait_channel = waiting_->channel;
  activity.outstanding = waiting_->outstanding;
  return activity;
}

bool Monitor::all_others(const std::set<Rank>& ranks) const {
  return ranks.size() + 1 == static_cast<std::size_t>(size_);
}

}  // namespace weft::mpi_transport
