#include "comm/thread/thread_world.h"

#include <array>
#include <exception>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "comm/thread/world.h"

namespace weft {
namespace {

using thread_transport::Clock;
using thread_transport::Failure;
using thread_transport::PendingTransfer;
using thread_transport::PostedOp;
using thread_transport::World;

class ThreadTransfer final : public Transfer {
 public:
  // The world and the stats belong to the communicator, which outlives its transfers.
  ThreadTransfer(World& world, ChannelStats& stats, Rank rank, Channel channel,
                 const OpLabel& label, std::span<const SendOp> sends, std::span<const RecvOp> recvs)
      : world_(world), stats_(stats) {
    pending_.rank = rank;
    pending_.channel = channel;
    pending_.label = label;
    pending_.num_pending = sends.size() + recvs.size();
    pending_.ops.reserve(pending_.num_pending);
    for (const SendOp& send : sends) {
      PostedOp& op = add(send.to, send.bytes, send.data == nullptr);
      op.is_send = true;
      op.send_data = static_cast<const std::byte*>(send.data);
    }
    for (const RecvOp& recv : recvs) {
      PostedOp& op = add(recv.from, recv.bytes, recv.data == nullptr);
      op.recv_data = static_cast<std::byte*>(recv.data);
    }
  }

  ~ThreadTransfer() override { world_.cancel(pending_); }

  ThreadTransfer(const ThreadTransfer&) = delete;
  ThreadTransfer& operator=(const ThreadTransfer&) = delete;

  void post(std::span<const SendOp> sends, std::span<const RecvOp> recvs) {
    world_.post(pending_, sends, recvs);
  }

  void wait() override {
    const BlockedTime blocked(stats_);
    world_.wait(pending_);
  }

 private:
  // Counts the time of its own life, also when an exception ends it.
  class BlockedTime {
   public:
    explicit BlockedTime(ChannelStats& stats) : stats_(stats), start_(Clock::now()) {}
    ~BlockedTime() {
      const auto elapsed =
          std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start_);
      stats_.blocked += Nanoseconds(elapsed.count());
    }
    BlockedTime(const BlockedTime&) = delete;
    BlockedTime& operator=(const BlockedTime&) = delete;

   private:
    ChannelStats& stats_;
    Clock::time_point start_;
  };

  PostedOp& add(Rank peer, Bytes bytes, bool is_null) {
    const auto where = [&] { return describe(pending_.label); };
    WEFT_CHECK(peer.value() >= 0 && peer.value() < world_.size(),
               "comm: rank {} names rank {} of {} in \"{}\"", pending_.rank, peer, world_.size(),
               where());
    WEFT_CHECK(bytes.value() >= 0 && !(is_null && bytes.value() > 0),
               "comm: rank {} gives {} bytes at {} for rank {} in \"{}\"", pending_.rank, bytes,
               is_null ? "a null pointer" : "an address", peer, where());
    PostedOp& op = pending_.ops.emplace_back();
    op.owner = &pending_;
    op.peer = peer;
    op.bytes = bytes;
    return op;
  }

  World& world_;
  ChannelStats& stats_;
  PendingTransfer pending_;
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(World& world, Rank rank) : world_(world), rank_(rank) {}

  Rank rank() const override { return rank_; }
  std::int32_t size() const override { return world_.size(); }
  std::string_view transport() const override { return "thread"; }

  Handle exchange(Channel channel, const OpLabel& label, std::span<const SendOp> sends,
                  std::span<const RecvOp> recvs) override {
    ChannelStats& stats = stats_[static_cast<std::size_t>(channel)];
    auto transfer =
        std::make_unique<ThreadTransfer>(world_, stats, rank_, channel, label, sends, recvs);
    transfer->post(sends, recvs);
    stats.messages_sent += static_cast<std::int64_t>(sends.size());
    for (const SendOp& send : sends) stats.bytes_sent += send.bytes;
    return Handle(std::move(transfer));
  }

  void abort(std::string_view reason) noexcept override { world_.fail(rank_, reason); }

  ChannelStats stats(Channel channel) const override {
    return stats_[static_cast<std::size_t>(channel)];
  }
  std::chrono::nanoseconds wait_limit() const override { return world_.wait_limit(); }

 private:
  World& world_;
  Rank rank_;
  std::array<ChannelStats, kNumChannels> stats_{};  // touched by the rank's own thread alone
};

// Returns what ended the body, if it was an exception. Never throws: it is the top of a thread.
std::exception_ptr run_rank(World& world, Rank rank,
                            const std::function<void(Communicator&)>& body) noexcept {
  try {
    ThreadCommunicator comm(world, rank);
    body(comm);
    world.finish(rank);
    return nullptr;
  } catch (const std::exception& error) {
    world.fail(rank, error.what());
    return std::current_exception();
  } catch (...) {
    world.fail(rank, "an exception that is not a std::exception");
    return std::current_exception();
  }
}

}  // namespace

void run_thread_ranks(const ThreadWorldOptions& options,
                      const std::function<void(Communicator&)>& body) {
  WEFT_USER_CHECK(options.num_ranks >= 1, "comm: {} ranks asked for; at least 1 is needed",
                  options.num_ranks);
  WEFT_USER_CHECK(options.wait_limit.count() > 0,
                  "comm: the wait limit is {} ns; it must be positive", options.wait_limit.count());
  World world(options);
  const auto num_ranks = static_cast<std::size_t>(options.num_ranks);
  std::vector<std::exception_ptr> errors(num_ranks);  // each written by its own rank, read after
  {
    std::vector<std::jthread> threads;
    threads.reserve(num_ranks);
    for (std::size_t i = 0; i < num_ranks; ++i) {
      const Rank rank(static_cast<std::int64_t>(i));
      try {
        threads.emplace_back([&, i, rank] { errors[i] = run_rank(world, rank, body); });
      } catch (const std::exception& error) {
        errors[i] = std::current_exception();
        world.fail(rank, error.what());
        break;
      }
    }
  }
  const std::optional<Failure> failure = world.failure();
  if (!failure) return;
  const auto& root_cause = errors[static_cast<std::size_t>(failure->rank.value())];
  if (root_cause) std::rethrow_exception(root_cause);
  throw_comm_error("rank {} failed: {}", failure->rank, failure->reason);
}

}  // namespace weft
