// OffloadTier: the slower place where activations wait between forward and backward. A seam: a file
// on local disk today (disk_tier.h), pinned host memory for GPUs later, fakes in tests (ByteScale
// section 5.2, `act_ctx`).
//
// A tier copies whole blocks in the background, in any order. It takes tensors by value and lets go
// of them when their copy has ended, whatever the caller does meanwhile: their memory cannot be
// reused while it is still being read or written.
#pragma once

#include <cstdint>
#include <future>

#include "tensor/tensor.h"

namespace weft {

// Blocks whose memory starts at a multiple of it are copied without a detour.
inline constexpr std::int64_t kOffloadAlignment = 4096;

// A stretch of the tier's storage.
struct OffloadBlock {
  std::int64_t place = 0;
  std::int64_t bytes = 0;
};

// Ready when the copy has ended and its tensor is let go; get() throws why it failed. There is no
// limit of time: a tier is local, and other ranks stop waiting for this one by their own limit.
using OffloadTransfer = std::shared_future<void>;

// Any thread may call any member. Errors come out of the transfers: IoError that names the place.
class OffloadTier {
 public:
  virtual ~OffloadTier() = default;

  virtual OffloadBlock reserve(std::int64_t bytes) = 0;
  // REQUIRES: no transfer of the block is under way.
  virtual void release(const OffloadBlock& block) = 0;
  // `from` [block.bytes] uint8, contiguous; nobody writes to it before the transfer has ended.
  virtual OffloadTransfer write(const OffloadBlock& block, at::Tensor from) = 0;
  // `into` [block.bytes] uint8, contiguous. REQUIRES: the block's write has ended.
  virtual OffloadTransfer read(const OffloadBlock& block, at::Tensor into) = 0;
};

}  // namespace weft
