#include "memory/offload_rate.h"

#include <algorithm>
#include <array>
#include <chrono>

namespace weft {
namespace {

template <class Copy>
double seconds_of(const Copy& copy) {
  const auto start = std::chrono::steady_clock::now();
  copy().get();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

double measure_offload_rate(OffloadTier& tier, Bytes bytes) {
  const OffloadBlock block = tier.reserve(bytes.value());
  // Numbers that no file system can shrink.
  const at::Tensor tensor = at::randint(256, {bytes.value()}, at::kByte);  // [N]
  std::array<double, 3> rounds{};
  try {
    tier.write(block, tensor).get();
    for (double& slower_s : rounds) {
      slower_s = std::max(seconds_of([&] { return tier.write(block, tensor); }),
                          seconds_of([&] { return tier.read(block, tensor); }));
    }
  } catch (...) {
    tier.release(block);
    throw;
  }
  tier.release(block);
  std::sort(rounds.begin(), rounds.end());
  return static_cast<double>(bytes.value()) / std::max(rounds[1], 1e-9);
}

}  // namespace weft
