// What both sides of a message tell each other in the checking mode: 128 bytes, from the sender to
// the receiver (what it sends) and from the receiver to the sender (what it expects), on lanes of
// their own. Header k of a lane belongs to payload k.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "comm/communicator.h"

namespace weft::mpi_transport {

struct MessageHeader {
  std::int64_t bytes = 0;
  std::int64_t step = 0;
  std::int32_t slot = 0, layer = 0, group = 0, hop = 0;
  std::uint64_t operation_hash = 0;    // of the whole name
  std::uint64_t operation_length = 0;  // of the whole name
  std::array<char, 80> operation{};    // its start; the rest is 0
  friend bool operator==(const MessageHeader&, const MessageHeader&) = default;
};
static_assert(sizeof(MessageHeader) == 128);

MessageHeader make_header(const OpLabel& label, Bytes bytes);
std::string describe(const MessageHeader& header);  // its label, as describe(OpLabel) shows it

}  // namespace weft::mpi_transport
