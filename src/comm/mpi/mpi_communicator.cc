#include "comm/mpi/mpi_communicator.h"

#include <memory>
#include <string>

namespace weft::mpi_transport {

Handle MpiCommunicator::exchange(Channel channel, const OpLabel& label,
                                 std::span<const SendOp> sends, std::span<const RecvOp> recvs) {
  auto transfer = std::make_unique<MpiTransfer>(lanes_, channel, label, sends, recvs);
  throw_if_failed(lanes_.monitor);
  lanes_.monitor.record_post(channel, label, sends, recvs);
  transfer->post();
  ChannelStats& stats = lanes_.stats[static_cast<std::size_t>(channel)];
  stats.messages_sent += static_cast<std::int64_t>(sends.size());
  for (const SendOp& send : sends) stats.bytes_sent += send.bytes;
  return Handle(std::move(transfer));
}

void MpiCommunicator::abort(std::string_view reason) noexcept {
  lanes_.monitor.submit(std::string(reason), true);
}

ChannelStats MpiCommunicator::stats(Channel channel) const {
  return lanes_.stats[static_cast<std::size_t>(channel)];
}

}  // namespace weft::mpi_transport
