#include "plan/whole_pool.h"

#include <algorithm>
#include <numeric>

#include "cost/micro_batch_time.h"
#include "plan/sequence_time.h"

namespace weft {
namespace {

// A table of this many entries answers a search in one look.
constexpr std::int64_t kLargestTable = 1 << 16;

}  // namespace

WholePool::WholePool(std::span<const SequenceSpec> sequences, std::span<const WholeRun> whole,
                     const CostModel& cost, Tokens capacity)
    : fixed_ns_(all_layers(cost, cost.fixed_ns).value()) {
  CostModel without_fixed = cost;
  without_fixed.fixed_ns = 0;
  lengths_.reserve(whole.size());
  for (const WholeRun run : whole) {
    const Tokens own = sequences[static_cast<std::size_t>(run.first)].tokens;
    const std::int64_t ns = sequence_time(without_fixed, own, 1, 1.0).value();
    lengths_.push_back({.tokens = own, .ns = ns, .left = run});
    num_left_ += static_cast<std::size_t>(run.count);
    left_ns_ += ns * run.count;
    left_tokens_ += own * run.count;
  }
  next_.resize(lengths_.size() + 1);
  std::iota(next_.begin(), next_.end(), 0);
  // A table pays when there are at least as many searches as entries.
  if (capacity.value() > kLargestTable ||
      capacity.value() > 4 * static_cast<std::int64_t>(num_left_)) {
    return;
  }
  at_most_.resize(static_cast<std::size_t>(capacity.value()) + 1);
  std::size_t length = 0;
  for (std::size_t room = at_most_.size(); room-- > 0;) {
    while (length < lengths_.size() &&
           lengths_[length].tokens.value() > static_cast<std::int64_t>(room))
      ++length;
    at_most_[room] = static_cast<std::uint32_t>(length);
  }
}

std::size_t WholePool::next_from(std::size_t length) {
  std::size_t root = length;
  while (next_[root] != root) root = next_[root];
  while (next_[length] != root) {
    const std::size_t after = next_[length];
    next_[length] = static_cast<std::uint32_t>(root);
    length = after;
  }
  return root < lengths_.size() ? root : kNone;
}

std::size_t WholePool::first_at_most(Tokens room) const {
  if (!at_most_.empty()) {
    return at_most_[static_cast<std::size_t>(
        std::min<std::int64_t>(room.value(), static_cast<std::int64_t>(at_most_.size()) - 1))];
  }
  const auto found = std::partition_point(lengths_.begin(), lengths_.end(),
                                          [&](const Length& own) { return own.tokens > room; });
  return static_cast<std::size_t>(found - lengths_.begin());
}

std::size_t WholePool::longest_within(Tokens room, std::int64_t ns) {
  if (ns <= 0 || room <= Tokens(0)) return kNone;
  const std::size_t length = next_from(first_at_most(room));
  if (length == kNone || lengths_[length].ns <= ns) return length;
  const auto found =
      std::partition_point(lengths_.begin() + static_cast<std::ptrdiff_t>(length), lengths_.end(),
                           [&](const Length& own) { return own.ns > ns; });
  return next_from(static_cast<std::size_t>(found - lengths_.begin()));
}

WholeRun WholePool::take(std::size_t length, std::int32_t count) {
  Length& own = lengths_[length];
  const WholeRun taken{.first = own.left.first, .count = count};
  own.left.first += count;
  own.left.count -= count;
  if (own.left.count == 0) next_[length] = static_cast<std::uint32_t>(length + 1);
  left_ns_ -= own.ns * count;
  left_tokens_ -= own.tokens * count;
  num_left_ -= static_cast<std::size_t>(count);
  return taken;
}

}  // namespace weft
