#include "memory/disk_tier.h"

#include <signal.h>

#include <utility>

#include "base/error.h"

namespace weft {
namespace {

std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

// Signals are for the threads that wait for them. A write over the limit of file sizes raises
// SIGXFSZ, which would end the process; blocked, the write fails instead.
void block_signals() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

}  // namespace

DiskTier::DiskTier(std::filesystem::path folder, bool direct)
    : file_(std::move(folder), direct), space_(ScratchFile::kAlignment) {
  thread_ = std::thread([this] { run(); });
}

DiskTier::~DiskTier() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

OffloadBlock DiskTier::reserve(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  return {.place = space_.take(bytes), .bytes = bytes};
}

void DiskTier::release(const OffloadBlock& block) {
  const std::lock_guard lock(mutex_);
  space_.give_back(block.place, block.bytes);
}

OffloadTransfer DiskTier::write(const OffloadBlock& block, at::Tensor from) {
  return enqueue(false, block, std::move(from));
}

OffloadTransfer DiskTier::read(const OffloadBlock& block, at::Tensor into) {
  return enqueue(true, block, std::move(into));
}

OffloadTransfer DiskTier::enqueue(bool reads, const OffloadBlock& block, at::Tensor tensor) {
  WEFT_CHECK(tensor.is_contiguous() && tensor.scalar_type() == at::kByte,
             "a tier copies plain bytes");
  WEFT_CHECK_EQ(static_cast<std::int64_t>(tensor.nbytes()), block.bytes, "bytes of the block");
  Copy copy{.reads = reads, .block = block, .tensor = std::move(tensor), .done = {}};
  OffloadTransfer transfer = copy.done.get_future().share();
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(copy));
  }
  changed_.notify_all();
  return transfer;
}

void DiskTier::run() {
  block_signals();
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (stopping_) break;
    Copy next = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    carry_out(std::move(next));
    lock.lock();
  }
  for (Copy& copy : queue_) {
    copy.tensor.reset();
    copy.done.set_exception(std::make_exception_ptr(IoError(fmt::format(
        "offload: the run ended before a copy to or from '{}' began", file_.folder().string()))));
  }
}

void DiskTier::carry_out(Copy copy) {
  std::exception_ptr error;
  try {
    if (copy.reads) {
      file_.read(copy.block.place, bytes_of(copy.tensor));
    } else {
      file_.write(copy.block.place, bytes_of(copy.tensor));
    }
  } catch (...) {
    error = std::current_exception();
  }
  copy.tensor.reset();  // before anyone is told
  if (error) {
    copy.done.set_exception(error);
  } else {
    copy.done.set_value();
  }
}

Bytes DiskTier::file_bytes() const {
  const std::lock_guard lock(mutex_);
  return Bytes(space_.end());
}

bool DiskTier::empty() const {
  const std::lock_guard lock(mutex_);
  return space_.empty();
}

}  // namespace weft
