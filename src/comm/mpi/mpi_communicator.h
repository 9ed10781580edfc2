// Communicator over MPI: one rank of one world.
#pragma once

#include "comm/communicator.h"
#include "comm/mpi/transfer.h"

namespace weft::mpi_transport {

class MpiCommunicator final : public Communicator {
 public:
  explicit MpiCommunicator(Lanes& lanes) : lanes_(lanes) {}

  Rank rank() const override { return lanes_.monitor.rank(); }
  std::int32_t size() const override { return lanes_.monitor.size(); }
  std::string_view transport() const override { return "mpi"; }
  Handle exchange(Channel channel, const OpLabel& label, std::span<const SendOp> sends,
                  std::span<const RecvOp> recvs) override;
  void abort(std::string_view reason) noexcept override;
  ChannelStats stats(Channel channel) const override;
  std::chrono::nanoseconds wait_limit() const override { return lanes_.monitor.wait_limit(); }

 private:
  Lanes& lanes_;
};

}  // namespace weft::mpi_transport
