// The monitor thread's side of Monitor.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "comm/mpi/monitor.h"
#include "comm/mpi/mpi_call.h"

namespace weft::mpi_transport {
namespace {

constexpr int kNoticeTag = 0;
// While a failure is under way messages pass between the monitors.
constexpr std::chrono::microseconds kBusyInterval{100};
// What drain() holds at a time.
constexpr std::size_t kDrainBytes = std::size_t{256} << 20;

}  // namespace

void Monitor::run() noexcept {
  try {
    while (run_once()) {
    }
  } catch (const std::exception& error) {
    // The rank's own thread would wait for it in vain.
    log_error("comm: the monitor thread of rank {} failed: {}", rank_, error.what());
    MPI_Abort(control_, EXIT_FAILURE);
  }
  if (!draining_.empty() || !sending_.empty()) {
    // MPI may still touch these buffers: they stay for the rest of the process.
    static_cast<void>(new std::vector<OpenRequest>(std::move(draining_)));
    static_cast<void>(new std::vector<OpenRequest>(std::move(sending_)));
  }
  const std::scoped_lock lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

bool Monitor::run_once() {
  receive_notices();
  send_parcels();
  if (failing() && decided()) drain();
  forget_completed(sending_);
  forget_completed(draining_);
  Lock lock(mutex_);
  const bool busy = !sending_.empty() || !draining_.empty() || failing();
  if (abandoned_) return false;
  if (!outbox_.empty()) return true;
  if (stopping_ && sending_.empty() && draining_.empty()) return false;
  work_.wait_for(lock, busy ? std::min(kBusyInterval, interval_) : interval_);
  return true;
}

void Monitor::receive_notices() {
  while (true) {
    int found = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    check_mpi(MPI_Improbe(MPI_ANY_SOURCE, kNoticeTag, control_, &found, &message, &status),
              "MPI_Improbe");
    if (found == 0) return;
    int count = 0;
    check_mpi(MPI_Get_count(&status, MPI_BYTE, &count), "MPI_Get_count");
    std::vector<std::byte> bytes(static_cast<std::size_t>(count));
    check_mpi(MPI_Mrecv(bytes.data(), count, MPI_BYTE, &message, MPI_STATUS_IGNORE), "MPI_Mrecv");
    handle(Rank(status.MPI_SOURCE), decode(bytes));
  }
}

void Monitor::handle(Rank from, const Notice& notice) {
  const std::scoped_lock lock(mutex_);
  switch (notice.kind) {
    case NoticeKind::kFailing:
      return handle_failing(from, notice.failure);
    case NoticeKind::kDecision:
      return decide(notice.failure, from, false);
    case NoticeKind::kFinished:
      finished_.insert(from);
      finished_counts_[from] = notice.counts;
      num_finished_.store(static_cast<std::int32_t>(finished_.size()), std::memory_order_release);
      break;
    case NoticeKind::kLeft:
      left_.insert(from);
      break;
    case NoticeKind::kEnd:
      ::_exit(EXIT_FAILURE);  // the sender has said why
    case NoticeKind::kQuery: {
      Notice reply;
      reply.kind = NoticeKind::kReply;
      reply.query = notice.query;
      reply.activity = activity(CommClock::now());
      return push(from, reply);
    }
    case NoticeKind::kReply:
      if (notice.query == query_) replies_[from] = notice.activity;
      break;
  }
  changed_.notify_all();
}

void Monitor::handle_failing(Rank from, const Failure& failure) {
  const bool news = !decision_ || (decision_->rank == failure.rank && !decision_->final);
  if (news) {
    decide(failure, rank_, true);
  } else {
    push(from, {.kind = NoticeKind::kDecision, .failure = *decision_});
  }
}

void Monitor::send_parcels() {
  std::deque<Parcel> parcels;
  {
    const std::scoped_lock lock(mutex_);
    parcels.swap(outbox_);
  }
  for (Parcel& parcel : parcels) {
    OpenRequest& open = sending_.emplace_back(OpenRequest{.bytes = std::move(parcel.bytes)});
    check_mpi(MPI_Isend(open.bytes.data(), static_cast<int>(open.bytes.size()), MPI_BYTE,
                        parcel.to.value(), kNoticeTag, control_, &open.request),
              "MPI_Isend");
  }
}

// Receives that ranks still have posted come first: only what none of them wants lands here.
void Monitor::drain() {
  std::size_t held = 0;
  for (const OpenRequest& open : draining_) held += open.bytes.size();
  while (held <= kDrainBytes) {
    int found = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    check_mpi(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, data_, &found, &message, &status),
              "MPI_Improbe");
    if (found == 0) return;
    int count = 0;
    check_mpi(MPI_Get_count(&status, MPI_BYTE, &count), "MPI_Get_count");
    OpenRequest& open = draining_.emplace_back();
    open.bytes.resize(static_cast<std::size_t>(count));
    held += open.bytes.size();
    check_mpi(MPI_Imrecv(open.bytes.data(), count, MPI_BYTE, &message, &open.request),
              "MPI_Imrecv");
  }
}

void Monitor::forget_completed(std::vector<OpenRequest>& requests) {
  std::erase_if(requests, [](OpenRequest& open) {
    int done = 0;
    check_mpi(MPI_Test(&open.request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done != 0;
  });
}

}  // namespace weft::mpi_transport
