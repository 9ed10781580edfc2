#include "comm/mpi/message_header.h"

#include <algorithm>

namespace weft::mpi_transport {
namespace {

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  }
  return hash;
}

}  // namespace

MessageHeader make_header(const OpLabel& label, Bytes bytes) {
  MessageHeader header;
  header.bytes = bytes.value();
  header.step = label.step;
  header.slot = label.slot;
  header.layer = label.layer;
  header.group = label.group;
  header.hop = label.hop;
  header.operation_hash = fnv1a(label.operation);
  header.operation_length = label.operation.size();
  const std::size_t kept = std::min(label.operation.size(), header.operation.size());
  std::copy_n(label.operation.begin(), kept, header.operation.begin());
  return header;
}

std::string describe(const MessageHeader& header) {
  const std::size_t kept =
      std::min(static_cast<std::size_t>(header.operation_length), header.operation.size());
  const OpLabel label{.operation = std::string_view(header.operation.data(), kept),
                      .step = header.step,
                      .slot = header.slot,
                      .layer = header.layer,
                      .group = header.group,
                      .hop = header.hop};
  return weft::describe(label);
}

}  // namespace weft::mpi_transport
