// What a rank did last and does now, kept for the report of a hang: a ring buffer of its last
// posts. Recording one costs no allocation. RankActivity is the same as a value without pointers or
// clocks (ages instead of times), so that it can be sent to another process.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/units.h"
#include "comm/communicator.h"

namespace weft {

using CommClock = std::chrono::steady_clock;

// 0 if `to` lies before `from`.
Nanoseconds elapsed_between(CommClock::time_point from, CommClock::time_point to);

// What is outstanding with one peer in one direction.
struct OutstandingSum {
  Rank peer{};
  bool is_send = false;
  std::int64_t count = 0;
  Bytes bytes{};
};

// One exchange as it was posted. Of the peers the first of each direction is kept.
struct PostSummary {
  std::string label{};  // describe(OpLabel)
  Channel channel{};
  std::int32_t num_sends = 0, num_recvs = 0;
  Rank first_send_to{}, first_recv_from{};
  Bytes send_bytes{}, recv_bytes{};
  Nanoseconds age{};
};

struct RankActivity {
  bool answered = true;  // false: the rank was asked and said nothing
  bool finished = false;
  bool waiting = false;      // inside wait(), else outside comm
  Nanoseconds since{};       // how long it has been there; since its last post if outside
  std::string wait_label{};  // if waiting
  Channel wait_channel{};
  std::vector<OutstandingSum> outstanding{};  // if waiting
  std::string dropped{};                      // a handle that an exception dropped
  std::vector<PostSummary> posts{};             // newest first
};

class PostLog {
 public:
  static constexpr std::size_t kCapacity = 16;

  void record(Channel channel, const OpLabel& label, std::span<const SendOp> sends,
              std::span<const RecvOp> recvs, CommClock::time_point now);
  std::vector<PostSummary> newest_first(CommClock::time_point now) const;
  bool empty() const { return num_posts_ == 0; }

 private:
  struct Post {
    OpLabel label;  // its operation is a string literal
    Channel channel{};
    std::int32_t num_sends = 0, num_recvs = 0;
    Rank first_send_to, first_recv_from;
    Bytes send_bytes, recv_bytes;
    CommClock::time_point at;
  };
  std::array<Post, kCapacity> posts_{};
  std::size_t num_posts_ = 0;  // ever; the newest is at (num_posts_ - 1) % kCapacity
};

}  // namespace weft
