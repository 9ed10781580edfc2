#include "plan/whole_pool.h"

#include <algorithm>

#include "cost/micro_batch_time.h"
#include "plan/sequence_time.h"

namespace weft {
namespace {

// A table of this many entries answers a search in one look.
constexpr std::int64_t kLargestTable = 1 << 16;

}  // namespace

WholePool::WholePool(std::span<const SequenceSpec> sequences, std::span<const std::int32_t> whole,
                     const CostModel& cost, Tokens capacity)
    : sequences_(sequences),
      whole_(whole),
      ns_(whole.size()),
      next_(whole.size() + 1),
      num_left_(whole.size()),
      fixed_ns_(all_layers(cost, cost.fixed_ns).value()) {
  CostModel without_fixed = cost;
  without_fixed.fixed_ns = 0;
  Tokens previous(-1);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    next_[i] = static_cast<std::uint32_t>(i);
    const Tokens own = tokens(i);
    ns_[i] = own == previous ? ns_[i - 1] : sequence_time(without_fixed, own, 1, 1.0).value();
    previous = own;
    left_ns_ += ns_[i];
    left_tokens_ += own;
  }
  next_.back() = static_cast<std::uint32_t>(whole.size());
  // A table pays when there are at least as many searches as entries.
  if (capacity.value() > kLargestTable ||
      capacity.value() > 4 * static_cast<std::int64_t>(whole.size())) {
    return;
  }
  at_most_.resize(static_cast<std::size_t>(capacity.value()) + 1);
  std::size_t position = 0;
  for (std::size_t room = at_most_.size(); room-- > 0;) {
    while (position < whole.size() && tokens(position).value() > static_cast<std::int64_t>(room))
      ++position;
    at_most_[room] = static_cast<std::uint32_t>(position);
  }
}

std::size_t WholePool::next_from(std::size_t position) {
  std::size_t root = position;
  while (next_[root] != root) root = next_[root];
  while (next_[position] != root) {
    const std::size_t after = next_[position];
    next_[position] = static_cast<std::uint32_t>(root);
    position = after;
  }
  return root;
}

std::size_t WholePool::first_at_most(Tokens room) const {
  if (!at_most_.empty()) {
    return at_most_[static_cast<std::size_t>(
        std::min<std::int64_t>(room.value(), static_cast<std::int64_t>(at_most_.size()) - 1))];
  }
  const auto found = std::partition_point(whole_.begin(), whole_.end(), [&](std::int32_t idx) {
    return sequences_[static_cast<std::size_t>(idx)].tokens > room;
  });
  return static_cast<std::size_t>(found - whole_.begin());
}

std::size_t WholePool::longest_within(Tokens room, std::int64_t ns) {
  if (ns <= 0 || room <= Tokens(0)) return kNone;
  std::size_t position = next_from(first_at_most(room));
  if (position < whole_.size() && ns_[position] > ns) {
    const auto found = std::partition_point(ns_.begin() + static_cast<std::ptrdiff_t>(position),
                                            ns_.end(), [&](std::int64_t own) { return own > ns; });
    position = next_from(static_cast<std::size_t>(found - ns_.begin()));
  }
  return position < whole_.size() ? position : kNone;
}

void WholePool::remove(std::size_t position) {
  next_[position] = static_cast<std::uint32_t>(position + 1);
  left_ns_ -= ns_[position];
  left_tokens_ -= tokens(position);
  --num_left_;
}

}  // namespace weft
