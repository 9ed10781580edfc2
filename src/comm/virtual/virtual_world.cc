#include "comm/virtual/virtual_world.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/error.h"
#include "comm/thread/thread_world.h"
#include "machine/one_core.h"
#include "machine/work_clock.h"

namespace weft {
namespace {

// Messages from one rank to another on one channel, in the order in which they were posted.
struct Lane {
  std::int32_t from = 0;
  std::int32_t to = 0;
  Channel channel = Channel::kRing;
  friend auto operator<=>(const Lane&, const Lane&) = default;
};

// When the messages that are under way arrive, for all ranks.
class Arrivals {
 public:
  void set(const Lane& lane, std::int64_t message, std::int64_t at_ns) {
    const std::lock_guard lock(mutex_);
    at_ns_[{lane, message}] = at_ns;
  }
  // REQUIRES: the message has been received, hence sent.
  std::int64_t take(const Lane& lane, std::int64_t message) {
    const std::lock_guard lock(mutex_);
    const auto found = at_ns_.find({lane, message});
    WEFT_CHECK(found != at_ns_.end(), "virtual ranks: message {} from rank {} to {} was never sent",
               message, lane.from, lane.to);
    const std::int64_t at_ns = found->second;
    at_ns_.erase(found);
    return at_ns;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<Lane, std::int64_t>, std::int64_t> at_ns_;
};

struct VirtualWorld {
  VirtualLink link;
  std::mutex baton;  // held by the rank that computes
  Arrivals arrivals;
  std::chrono::nanoseconds wait_limit{};  // as asked for

  std::int64_t send_ns(Bytes bytes) const {
    return std::llround(1e9 * static_cast<double>(bytes.value()) / link.bytes_per_second);
  }
};

// A rank's clock, in nanoseconds since its start. Runs while the rank computes.
class RankClock {
 public:
  RankClock() : cpu_mark_ns_(thread_cpu_time().value()) {}
  std::int64_t read() {
    const std::int64_t cpu_ns = thread_cpu_time().value();
    now_ns_ += cpu_ns - std::exchange(cpu_mark_ns_, cpu_ns);
    return now_ns_;
  }
  // What the thread did since the last read() was not the rank's work.
  void skip() { cpu_mark_ns_ = thread_cpu_time().value(); }
  // Returns how far.
  std::int64_t put_forward_to(std::int64_t at_ns) {
    const std::int64_t before_ns = std::exchange(now_ns_, std::max(now_ns_, at_ns));
    return now_ns_ - before_ns;
  }

 private:
  std::int64_t now_ns_ = 0;
  std::int64_t cpu_mark_ns_;
};

class VirtualCommunicator;

class VirtualTransfer final : public Transfer {
 public:
  struct Incoming {
    Lane lane;
    std::int64_t message = 0;
  };
  VirtualTransfer(VirtualCommunicator& comm, Channel channel, Handle inner)
      : comm_(comm), channel_(channel), inner_(std::move(inner)) {}
  void wait() override;

  std::int64_t sent_ns = 0;  // when the last outgoing message has left
  std::vector<Incoming> incoming;

 private:
  VirtualCommunicator& comm_;
  Channel channel_;
  Handle inner_;
};

class VirtualCommunicator final : public Communicator {
 public:
  VirtualCommunicator(VirtualWorld& world, Communicator& inner) : world_(world), inner_(inner) {}

  Rank rank() const override { return inner_.rank(); }
  std::int32_t size() const override { return inner_.size(); }
  std::string_view transport() const override { return "virtual"; }
  void abort(std::string_view reason) noexcept override { inner_.abort(reason); }
  std::chrono::nanoseconds wait_limit() const override { return world_.wait_limit; }
  std::chrono::nanoseconds now() const override { return std::chrono::nanoseconds(clock_.read()); }

  ChannelStats stats(Channel channel) const override {
    ChannelStats stats = inner_.stats(channel);
    stats.blocked = Nanoseconds(blocked_ns_[static_cast<std::size_t>(channel)]);
    return stats;
  }

  Handle exchange(Channel channel, const OpLabel& label, std::span<const SendOp> sends,
                  std::span<const RecvOp> recvs) override {
    const std::int64_t posted_ns = clock_.read();
    const auto self = static_cast<std::int32_t>(rank().value());
    std::int64_t sent_ns = posted_ns;
    for (const SendOp& send : sends) {
      const Lane lane{self, static_cast<std::int32_t>(send.to.value()), channel};
      const bool to_self = lane.to == self;
      if (to_self) {
        world_.arrivals.set(lane, num_sent_[lane]++, posted_ns);
        continue;
      }
      link_free_ns_ = std::max(link_free_ns_, posted_ns) + world_.send_ns(send.bytes);
      sent_ns = std::max(sent_ns, link_free_ns_);
      world_.arrivals.set(lane, num_sent_[lane]++, link_free_ns_ + world_.link.latency.count());
    }
    auto transfer = std::make_unique<VirtualTransfer>(
        *this, channel, inner_.exchange(channel, label, sends, recvs));
    transfer->sent_ns = sent_ns;
    for (const RecvOp& recv : recvs) {
      const Lane lane{static_cast<std::int32_t>(recv.from.value()), self, channel};
      transfer->incoming.push_back({lane, num_received_[lane]++});
    }
    clock_.skip();
    return Handle(std::move(transfer));
  }

  // Hands the baton on while `inner` waits.
  void wait(Channel channel, Handle& inner, std::int64_t sent_ns,
            std::span<const VirtualTransfer::Incoming> incoming) {
    clock_.read();
    world_.baton.unlock();
    try {
      inner.wait();
    } catch (...) {
      world_.baton.lock();
      throw;
    }
    world_.baton.lock();
    std::int64_t until_ns = sent_ns;
    for (const auto& [lane, message] : incoming) {
      until_ns = std::max(until_ns, world_.arrivals.take(lane, message));
    }
    blocked_ns_[static_cast<std::size_t>(channel)] += clock_.put_forward_to(until_ns);
    clock_.skip();
  }

 private:
  VirtualWorld& world_;
  Communicator& inner_;
  mutable RankClock clock_;  // reading it brings it up to date
  std::int64_t link_free_ns_ = 0;
  std::array<std::int64_t, kNumChannels> blocked_ns_{};
  std::map<Lane, std::int64_t> num_sent_, num_received_;
};

void VirtualTransfer::wait() { comm_.wait(channel_, inner_, sent_ns, incoming); }

}  // namespace

void run_virtual_ranks(const VirtualWorldOptions& options,
                       const std::function<void(Communicator&)>& body) {
  WEFT_USER_CHECK(std::isfinite(options.link.bytes_per_second) && options.link.bytes_per_second > 0,
                  "virtual ranks: the link's bandwidth is {} bytes/s; it must be positive",
                  options.link.bytes_per_second);
  WEFT_USER_CHECK(options.link.latency.count() >= 0,
                  "virtual ranks: the link's latency is {} ns; it must not be negative",
                  options.link.latency.count());
  VirtualWorld world;
  world.link = options.link;
  world.wait_limit = options.wait_limit;
  // While one rank computes, all others wait for the baton.
  const auto wait_limit = options.wait_limit * std::max(options.num_ranks, 1);
  const int core = current_core();
  run_thread_ranks({.num_ranks = options.num_ranks, .wait_limit = wait_limit},
                   [&](Communicator& inner) {
                     stay_on_core(core);
                     const std::lock_guard baton(world.baton);
                     VirtualCommunicator comm(world, inner);
                     body(comm);
                   });
}

}  // namespace weft
