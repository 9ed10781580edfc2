#include "memory/offloaded_layer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace weft {
namespace {

at::Tensor plain_bytes(std::int64_t count) { return at::empty({count}, at::kByte); }

// The whole memory behind a tensor as [N] uint8.
at::Tensor memory_of(const at::Tensor& tensor) {
  const c10::Storage& storage = tensor.storage();
  return at::empty({0}, at::kByte)
      .set_(storage, 0, {static_cast<std::int64_t>(storage.nbytes())}, {1});
}

void wait_quietly(const OffloadTransfer& transfer) {
  if (transfer.valid()) transfer.wait();
}

}  // namespace

std::vector<std::int64_t> share_out(std::span<const std::int64_t> block_bytes, double ratio) {
  std::vector<std::int64_t> out(block_bytes.size(), 0);
  const std::int64_t total = std::accumulate(block_bytes.begin(), block_bytes.end(), 0LL);
  std::int64_t left =
      std::min(total, static_cast<std::int64_t>(std::ceil(ratio * static_cast<double>(total))));
  std::vector<std::size_t> order(block_bytes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return block_bytes[a] > block_bytes[b]; });
  for (const std::size_t i : order) {
    if (block_bytes[i] > left) continue;
    out[i] = block_bytes[i];
    left -= out[i];
  }
  if (left <= 0) return out;
  for (auto i = order.rbegin(); i != order.rend(); ++i) {
    if (out[*i] > 0 || block_bytes[*i] < left) continue;
    // What goes out starts at an aligned byte, for the tier's sake.
    const std::int64_t kept = block_bytes[*i] - left;
    out[*i] =
        block_bytes[*i] - (kept >= kOffloadAlignment ? kept - kept % kOffloadAlignment : kept);
    return out;
  }
  throw_internal_error("no block holds the last {} of {} bytes", left, total);
}

OffloadedLayer::OffloadedLayer(SavedLayer saved, double ratio, OffloadTier& tier)
    : OffloadedLayer(tier) {
  std::vector<at::Tensor> memory;  // by part
  std::vector<std::int64_t> sizes;
  const auto tensors = saved.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    at::Tensor& tensor = *tensors[i];
    if (!tensor.defined()) continue;
    std::size_t part = 0;
    while (part < memory.size() && !memory[part].is_alias_of(tensor)) ++part;
    if (part == memory.size()) {
      memory.push_back(memory_of(tensor));
      sizes.push_back(static_cast<std::int64_t>(memory.back().nbytes()));
      total_ += Bytes(sizes.back());
    }
    views_[i] = View{.part = part,
                     .dtype = tensor.scalar_type(),
                     .offset = tensor.storage_offset(),
                     .sizes = tensor.sizes().vec(),
                     .strides = tensor.strides().vec()};
    tensor.reset();
  }
  const std::vector<std::int64_t> out = share_out(sizes, ratio);
  parts_.resize(memory.size());
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    parts_[i].bytes = sizes[i];
    send_out(parts_[i], std::exchange(memory[i], at::Tensor()), out[i]);
  }
}

void OffloadedLayer::send_out(Part& part, const at::Tensor& memory, std::int64_t bytes) {
  if (bytes == 0) {
    part.kept = memory;
    return;
  }
  const std::int64_t stays = part.bytes - bytes;
  if (stays > 0) part.kept = memory.narrow(0, 0, stays).clone();
  part.block = tier_.reserve(bytes);
  part.reserved = true;
  offloaded_ += Bytes(bytes);
  part.transfer = tier_.write(part.block, memory.narrow(0, stays, bytes));
}

OffloadedLayer::~OffloadedLayer() { release_places(); }

void OffloadedLayer::release_places() {
  for (Part& part : parts_) {
    wait_quietly(part.transfer);
    if (std::exchange(part.reserved, false)) tier_.release(part.block);
  }
}

void OffloadedLayer::wait_written() {
  if (written_) return;
  for (const Part& part : parts_) {
    if (part.transfer.valid()) part.transfer.get();
  }
  written_ = true;
}

void OffloadedLayer::start_fetch() {
  WEFT_CHECK(!fetching_, "a layer is fetched twice");
  wait_written();
  fetching_ = true;
  for (Part& part : parts_) {
    if (!part.reserved) continue;
    const at::Tensor whole = plain_bytes(part.bytes);
    const std::int64_t stays = part.kept_bytes();
    if (stays > 0) whole.narrow(0, 0, stays).copy_(part.kept);
    part.kept = whole;
    part.transfer = tier_.read(part.block, whole.narrow(0, stays, part.block.bytes));
  }
}

SavedLayer OffloadedLayer::finish_fetch() {
  if (!fetching_) start_fetch();
  for (const Part& part : parts_) {
    if (part.transfer.valid()) part.transfer.get();
  }
  release_places();
  SavedLayer saved;
  const auto tensors = saved.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!views_[i]) continue;
    const View& view = *views_[i];
    *tensors[i] =
        at::empty({0}, view.dtype)
            .set_(parts_[view.part].kept.storage(), view.offset, view.sizes, view.strides);
  }
  parts_.clear();
  return saved;
}

Bytes OffloadedLayer::resident_bytes() const {
  return written_ && !fetching_ ? total_ - offloaded_ : total_;
}

}  // namespace weft
