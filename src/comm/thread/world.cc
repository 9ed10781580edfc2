#include "comm/thread/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <utility>

#include "base/error.h"
#include "comm/wait_report.h"

namespace weft::thread_transport {
namespace {

// Up to here a copy costs less than taking the lock again to report it.
constexpr Bytes kCopyUnderLock{4096};
// Keeps now() + limit inside the clock's range.
constexpr std::chrono::nanoseconds kLongestWaitLimit = std::chrono::hours(24 * 365);

void copy(const PostedOp& a, const PostedOp& b) {
  if (a.bytes.value() == 0) return;
  const PostedOp& send = a.is_send ? a : b;
  const PostedOp& recv = a.is_send ? b : a;
  std::memcpy(recv.recv_data, send.send_data, static_cast<std::size_t>(a.bytes.value()));
}

std::vector<OutstandingSum> outstanding_of(const PendingTransfer& transfer) {
  std::map<std::pair<Rank, bool>, OutstandingSum> sums;
  for (const PostedOp& op : transfer.ops) {
    if (op.state != OpState::kQueued && op.state != OpState::kUnposted) continue;
    OutstandingSum& sum = sums[{op.peer, op.is_send}];
    sum.peer = op.peer;
    sum.is_send = op.is_send;
    ++sum.count;
    sum.bytes += op.bytes;
  }
  std::vector<OutstandingSum> outstanding;
  for (const auto& [key, sum] : sums) outstanding.push_back(sum);
  return outstanding;
}

OpenTransfer open_transfer(const PendingTransfer& transfer) {
  return {transfer.rank, transfer.label, transfer.channel, outstanding_of(transfer)};
}

std::string mismatch_of(const PostedOp& a, const PostedOp& b) {
  const auto side = [](const PostedOp& op) {
    return MessageSide{op.owner->rank, op.bytes, describe(op.owner->label)};
  };
  return mismatch_report(a.owner->channel, side(a.is_send ? a : b), side(a.is_send ? b : a));
}

std::string report_failure(const Failure& failure) {
  return fmt::format("rank {} failed: {}", failure.rank, failure.reason);
}

}  // namespace

World::World(const ThreadWorldOptions& options)
    : num_ranks_(options.num_ranks),
      wait_limit_(std::min(options.wait_limit, kLongestWaitLimit)),
      lanes_(static_cast<std::size_t>(options.num_ranks) *
             static_cast<std::size_t>(options.num_ranks) * kNumChannels),
      ranks_(static_cast<std::size_t>(options.num_ranks)) {}

void World::post(PendingTransfer& transfer, std::span<const SendOp> sends,
                 std::span<const RecvOp> recvs) {
  bool failed = false;
  {
    const std::scoped_lock lock(mutex_);
    throw_if_failed(transfer.rank);
    RankState& me = state_of(transfer.rank);
    me.since = Clock::now();
    me.posts.record(transfer.channel, transfer.label, sends, recvs, me.since);
    for (PostedOp& op : transfer.ops) {
      place(op);
      failed = failure_.has_value();
      if (failed) break;
    }
  }
  for (PostedOp& op : transfer.ops) {
    if (op.copy_partner == nullptr) continue;
    copy(op, *op.copy_partner);
    const std::scoped_lock lock(mutex_);
    complete(*op.copy_partner);
    complete(op);
  }
  if (failed) {
    const std::scoped_lock lock(mutex_);
    throw CommError(failure_->reason);
  }
}

void World::wait(PendingTransfer& transfer) {
  std::unique_lock lock(mutex_);
  throw_if_failed(transfer.rank);
  RankState& me = state_of(transfer.rank);
  const auto start = Clock::now();
  const auto deadline = start + wait_limit_;
  me.waiting = &transfer;
  me.since = start;
  std::string own_failure;
  while (!failure_ && transfer.num_pending > 0) {
    if (const PostedOp* op = op_nobody_will_match(transfer)) {
      own_failure = finished_report(open_transfer(transfer), op->peer, op->is_send, op->bytes);
    } else if (transfer.num_pending == transfer.num_copying) {
      me.wake.wait(lock);  // a copy under way ends by itself
    } else if (const auto now = Clock::now(); now >= deadline) {
      own_failure = timeout_report(open_transfer(transfer), elapsed_between(start, now),
                                   wait_limit_, [&](Rank rank) { return activity_of(rank, now); });
    } else {
      me.wake.wait_until(lock, deadline);
    }
    if (!own_failure.empty()) set_failure(transfer.rank, own_failure);
  }
  me.waiting = nullptr;
  me.since = Clock::now();
  if (!failure_) return;
  release(transfer, lock);
  throw CommError(own_failure.empty() ? report_failure(*failure_) : own_failure);
}

void World::cancel(PendingTransfer& transfer) noexcept {
  std::unique_lock lock(mutex_);
  const bool unmatched = transfer.num_pending > transfer.num_copying;
  if (unmatched && !failure_) {
    RankState& me = state_of(transfer.rank);
    std::string reason = dropped_report(open_transfer(transfer));
    if (std::uncaught_exceptions() > 0) {
      if (me.dropped.empty()) me.dropped = std::move(reason);
      withdraw_all(transfer.rank);
    } else {
      set_failure(transfer.rank, std::move(reason));
    }
  }
  release(transfer, lock);
}

void World::fail(Rank rank, std::string_view reason) noexcept {
  const std::scoped_lock lock(mutex_);
  set_failure(rank, std::string(reason));
}

void World::finish(Rank rank) {
  const std::scoped_lock lock(mutex_);
  RankState& me = state_of(rank);
  if (!me.dropped.empty()) set_failure(rank, me.dropped);
  me.finished = true;
  ++num_finished_;
  for (RankState& state : ranks_) {
    if (state.waiting != nullptr) state.wake.notify_one();
  }
}

std::optional<Failure> World::failure() const {
  const std::scoped_lock lock(mutex_);
  return failure_;
}

World::Lane& World::lane_of(const PostedOp& op) {
  const auto own = static_cast<std::size_t>(op.owner->rank.value());
  const auto peer = static_cast<std::size_t>(op.peer.value());
  const std::size_t source = op.is_send ? own : peer;
  const std::size_t destination = op.is_send ? peer : own;
  const std::size_t pair = source * static_cast<std::size_t>(num_ranks_) + destination;
  return lanes_[pair * kNumChannels + static_cast<std::size_t>(op.owner->channel)];
}

void World::place(PostedOp& op) {
  Lane& lane = lane_of(op);
  PostedOp* const other = lane.head;
  if (other == nullptr || other->is_send == op.is_send) {
    enqueue(lane, op);
    return;
  }
  if (op.bytes != other->bytes || op.owner->label != other->owner->label) {
    set_failure(op.owner->rank, mismatch_of(op, *other));
    return;
  }
  unlink(lane, *other);
  if (op.bytes <= kCopyUnderLock) {
    copy(op, *other);
    op.state = other->state = OpState::kCopying;
    ++op.owner->num_copying;
    ++other->owner->num_copying;
    complete(*other);
    complete(op);
    return;
  }
  op.state = other->state = OpState::kCopying;
  ++op.owner->num_copying;
  ++other->owner->num_copying;
  op.copy_partner = other;
}

void World::enqueue(Lane& lane, PostedOp& op) {
  op.state = OpState::kQueued;
  op.previous = lane.tail;
  op.next = nullptr;
  (lane.tail != nullptr ? lane.tail->next : lane.head) = &op;
  lane.tail = &op;
}

void World::unlink(Lane& lane, PostedOp& op) {
  (op.previous != nullptr ? op.previous->next : lane.head) = op.next;
  (op.next != nullptr ? op.next->previous : lane.tail) = op.previous;
  op.previous = op.next = nullptr;
}

// kCopying -> kDone. The owner may free the transfer as soon as the lock is released.
void World::complete(PostedOp& op) {
  op.state = OpState::kDone;
  PendingTransfer& transfer = *op.owner;
  --transfer.num_pending;
  --transfer.num_copying;
  if (transfer.num_copying == 0 && (transfer.num_pending == 0 || failure_)) {
    state_of(transfer.rank).wake.notify_one();
  }
}

void World::release(PendingTransfer& transfer, std::unique_lock<std::mutex>& lock) {
  for (PostedOp& op : transfer.ops) {
    if (op.state == OpState::kQueued) unlink(lane_of(op), op);
    if (op.state == OpState::kQueued || op.state == OpState::kUnposted) {
      op.state = OpState::kDone;
      --transfer.num_pending;
    }
  }
  state_of(transfer.rank).wake.wait(lock, [&] { return transfer.num_copying == 0; });
}

// Otherwise a peer could meet a later message of this rank where the dropped one was, and report a
// mismatch before the rank has said what really happened.
void World::withdraw_all(Rank rank) {
  const auto num_ranks = static_cast<std::size_t>(num_ranks_);
  const auto own = static_cast<std::size_t>(rank.value());
  for (std::size_t peer = 0; peer < num_ranks; ++peer) {
    for (std::size_t channel = 0; channel < kNumChannels; ++channel) {
      for (const std::size_t pair : {own * num_ranks + peer, peer * num_ranks + own}) {
        Lane& lane = lanes_[pair * kNumChannels + channel];
        while (lane.head != nullptr && lane.head->owner->rank == rank) {  // one kind, so one owner
          PostedOp& op = *lane.head;
          unlink(lane, op);
          op.state = OpState::kDone;
          --op.owner->num_pending;
        }
      }
    }
  }
}

RankActivity World::activity_of(Rank rank, Clock::time_point now) const {
  const RankState& state = ranks_[static_cast<std::size_t>(rank.value())];
  RankActivity activity{.finished = state.finished,
                        .waiting = state.waiting != nullptr,
                        .since = elapsed_between(state.since, now),
                        .dropped = state.dropped,
                        .posts = state.posts.newest_first(now)};
  if (state.waiting == nullptr) return activity;
  activity.wait_label = describe(state.waiting->label);
  activity.wait_channel = state.waiting->channel;
  activity.outstanding = outstanding_of(*state.waiting);
  return activity;
}

const PostedOp* World::op_nobody_will_match(const PendingTransfer& transfer) const {
  if (num_finished_ == 0) return nullptr;
  for (const PostedOp& op : transfer.ops) {
    const bool finished = ranks_[static_cast<std::size_t>(op.peer.value())].finished;
    if (op.state == OpState::kQueued && finished) return &op;
  }
  return nullptr;
}

void World::set_failure(Rank rank, std::string reason) {
  if (failure_) return;
  failure_ = Failure{rank, std::move(reason)};
  for (RankState& state : ranks_) state.wake.notify_one();
}

void World::throw_if_failed(Rank rank) {
  if (!failure_) {
    if (const std::string& dropped = state_of(rank).dropped; !dropped.empty()) {
      set_failure(rank, dropped);
    }
  }
  if (failure_) throw CommError(report_failure(*failure_));
}

}  // namespace weft::thread_transport
