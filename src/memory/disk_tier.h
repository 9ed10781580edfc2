// DiskTier: activations wait in a file on local disk, written and read by one background thread, in
// the order in which they were handed over. One for each rank.
//
// The file has no name (scratch_file.h) and grows to the most that was offloaded at once. Memory of
// its own: 1 MiB, through which tensors pass that are not aligned.
#pragma once

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <mutex>
#include <thread>

#include "memory/block_space.h"
#include "memory/offload_tier.h"
#include "memory/scratch_file.h"

namespace weft {

class DiskTier final : public OffloadTier {
 public:
  // UserError as ScratchFile.
  explicit DiskTier(std::filesystem::path folder, bool direct = true);
  // Finishes the copy under way; those not begun fail.
  ~DiskTier() override;
  DiskTier(const DiskTier&) = delete;
  DiskTier& operator=(const DiskTier&) = delete;

  OffloadBlock reserve(std::int64_t bytes) override;
  void release(const OffloadBlock& block) override;
  OffloadTransfer write(const OffloadBlock& block, at::Tensor from) override;
  OffloadTransfer read(const OffloadBlock& block, at::Tensor into) override;

  bool direct() const { return file_.direct(); }  // past the page cache
  Bytes page_cache_bytes() const { return file_.page_cache_bytes(); }
  Bytes file_bytes() const;
  bool empty() const;  // no block is reserved

 private:
  struct Copy {
    bool reads = false;
    OffloadBlock block;
    at::Tensor tensor;  // [block.bytes] uint8
    std::promise<void> done;
  };

  OffloadTransfer enqueue(bool reads, const OffloadBlock& block, at::Tensor tensor);
  void run();
  void carry_out(Copy copy);

  ScratchFile file_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Copy> queue_;  // this and the next two guarded by mutex_
  BlockSpace space_;
  bool stopping_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace weft
