// What the monitor threads of an MPI job tell each other, and its bytes. Only processes of one
// build talk to each other, so there is no version; a damaged notice is a UserError of ByteReader.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "comm/activity.h"

namespace weft::mpi_transport {

enum class NoticeKind : std::uint8_t {
  kFailing,   // to an arbiter: this rank fails; decide whose failure is the first
  kDecision,  // to all: whose failure it is. Again, when its reason has become final
  kFinished,  // to all: the body has returned, and how many messages it had posted with you
  kLeft,      // to all, after a failure: this rank makes no more calls
  kEnd,       // to all: the job cannot end in an orderly way; leave the process
  kQuery,     // what do you do?
  kReply,
};

struct Failure {
  Rank rank{};  // the first to fail
  std::string reason{};
  bool final = true;  // false: an exception is on its way that will say more
};

// Messages that one rank has posted with another, per channel.
struct LaneCounts {
  std::array<std::int64_t, kNumChannels> sends{};
  std::array<std::int64_t, kNumChannels> recvs{};
};

struct Notice {
  NoticeKind kind{};
  Failure failure{};        // kFailing, kDecision
  LaneCounts counts{};      // kFinished
  std::int64_t query = 0;   // kQuery, kReply: which question
  RankActivity activity{};  // kReply
};

std::vector<std::byte> encode(const Notice& notice);
Notice decode(std::span<const std::byte> bytes);

}  // namespace weft::mpi_transport
