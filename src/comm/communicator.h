// Communicator: the seam between ranks. Pointers, bytes and labels; it knows no tensor.
//
// One verb: exchange(channel, label, sends, recvs) -> Handle. It posts and returns; nothing blocks
// until wait(). Messages from one rank to another on one channel arrive in the order they were
// posted, so every transfer's peer, order and size follow from the plan and nothing is negotiated.
// Each message carries its label and size; when they differ from what the receiver posted, both
// ranks fail with a CommError that shows both.
//
// Buffers must stay alive and untouched until wait() returns (sends may be read, recvs written,
// until then). Every wait has a time limit; on expiry all ranks of the world end with a report that
// names who waits for whom, for which operation, how many bytes, at which step and plan position. A
// rank that fails calls abort(); every other rank's current or next call then throws CommError with
// that rank's reason.
//
// A Communicator belongs to one rank; its methods may be called from one thread at a time.
// Transports: thread and virtual (this module), mpi, later nccl and tcp. All pass
// tests/support/comm_conformance.h.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/units.h"

namespace weft {

// Independent FIFO lanes between each pair of ranks.
enum class Channel : std::uint8_t { kRing = 0, kReduce = 1, kControl = 2 };
inline constexpr int kNumChannels = 3;
std::string_view channel_name(Channel channel);  // "ring", "reduce", "control"

// What a message is for. Both sides must post the same label. -1 = not applicable.
struct OpLabel {
  std::string_view operation;  // a string literal such as "ring kv forward"
  std::int64_t step = -1;
  std::int32_t slot = -1;
  std::int32_t layer = -1;
  std::int32_t group = -1;  // StepPlan group index
  std::int32_t hop = -1;    // hop of a ring, bucket of a reduction
  friend bool operator==(const OpLabel&, const OpLabel&) = default;
};
std::string describe(
    const OpLabel& label);  // "ring kv forward (step 3, slot 2, layer 0, group 1, hop 2)"

struct SendOp {
  Rank to;
  const void* data = nullptr;
  Bytes bytes;  // may be 0
};

struct RecvOp {
  Rank from;
  void* data = nullptr;
  Bytes bytes;  // may be 0
};

// Counted per channel since the communicator was made.
struct ChannelStats {
  std::int64_t messages_sent = 0;
  Bytes bytes_sent;
  Nanoseconds blocked;  // time spent inside wait()
};

// The pending exchange behind a Handle. wait() is called at most once.
class Transfer {
 public:
  virtual ~Transfer() =
      default;  // REQUIRES: cancels what is still pending; afterwards no buffer is touched
  virtual void wait() = 0;
};

// Must be waited on. Dropping an unwaited handle (an exception passed by) cancels its transfers.
class [[nodiscard]] Handle {
 public:
  Handle() = default;
  explicit Handle(std::unique_ptr<Transfer> transfer) : transfer_(std::move(transfer)) {}
  bool pending() const { return transfer_ != nullptr; }
  void wait() {
    if (!transfer_) return;
    const auto transfer = std::move(transfer_);
    transfer->wait();
  }

 private:
  std::unique_ptr<Transfer> transfer_;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual Rank rank() const = 0;
  virtual std::int32_t size() const = 0;
  virtual std::string_view transport() const = 0;  // "thread", "virtual", "mpi"

  virtual Handle exchange(Channel channel, const OpLabel& label, std::span<const SendOp> sends,
                          std::span<const RecvOp> recvs) = 0;

  // Ends the run on every rank: their current or next call throws CommError naming this rank and
  // `reason`. The first reason wins. Never throws.
  virtual void abort(std::string_view reason) noexcept = 0;

  virtual ChannelStats stats(Channel channel) const = 0;
  virtual std::chrono::nanoseconds wait_limit() const = 0;
  // The clock by which this rank's time is measured: the system's steady clock, but for virtual
  // ranks (virtual/virtual_world.h).
  virtual std::chrono::nanoseconds now() const;
};

}  // namespace weft
