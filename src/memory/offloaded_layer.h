// OffloadedLayer: one layer's saved tensors, a share of whose bytes waits in a tier.
//
// What moves is memory, not tensors: each distinct block of memory behind the tensors is kept, goes
// out whole, or (one at most) goes out from some byte on; afterwards the same tensors are put
// together again on new memory, views and shared blocks included. Hardly anything is copied to that
// end: only the part of the one split block that stays.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "memory/offload_tier.h"
#include "memory/saved_layer.h"

namespace weft {

// Of blocks of so many bytes, how many bytes each sends out, for a share `ratio` of them all: whole
// blocks, largest first, while they fit; the rest is the end of the smallest block that has as
// much. Never less than the share; more by less than kOffloadAlignment.
std::vector<std::int64_t> share_out(std::span<const std::int64_t> block_bytes, double ratio);

// Belongs to one thread.
class OffloadedLayer {
 public:
  // Starts to write. The tensors' memory is freed as it has been written, unless others hold it.
  OffloadedLayer(SavedLayer saved, double ratio, OffloadTier& tier);
  // Waits for what is under way: the tier's places are given back.
  ~OffloadedLayer();
  OffloadedLayer(const OffloadedLayer&) = delete;
  OffloadedLayer& operator=(const OffloadedLayer&) = delete;

  void wait_written();  // throws what the tier says
  // Makes room and starts to read; waits until all is written.
  void start_fetch();
  bool is_fetching() const { return fetching_; }
  // Waits until all is read; the tensors as they were. Starts to read if nobody did. Once.
  SavedLayer finish_fetch();

  Bytes offloaded_bytes() const { return offloaded_; }
  Bytes resident_bytes() const;  // until everything is written, and again from start_fetch on: all

 private:
  struct Part {
    at::Tensor kept;  // [kept bytes] uint8; undefined: nothing stays
    std::int64_t bytes = 0;
    OffloadBlock block;  // bytes 0: nothing goes out
    OffloadTransfer transfer;
    bool reserved = false;
    std::int64_t kept_bytes() const { return bytes - block.bytes; }
  };
  // How a tensor lies on its part's memory.
  struct View {
    std::size_t part = 0;
    at::ScalarType dtype = at::kFloat;
    std::int64_t offset = 0;  // elements
    std::vector<std::int64_t> sizes;
    std::vector<std::int64_t> strides;
  };

  void send_out(Part& part, const at::Tensor& memory, std::int64_t bytes);
  void release_places();

  // The public constructor continues it, so that what that one started is waited for if it throws.
  explicit OffloadedLayer(OffloadTier& tier) : tier_(tier) {}

  OffloadTier& tier_;
  std::vector<Part> parts_;
  std::array<std::optional<View>, SavedLayer::kNumTensors> views_;
  Bytes total_;
  Bytes offloaded_;
  bool written_ = false;
  bool fetching_ = false;
};

}  // namespace weft
