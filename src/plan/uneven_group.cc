#include "plan/uneven_group.h"

#include <algorithm>

#include "base/error.h"
#include "cost/micro_batch_time.h"

namespace weft {

UnevenShares uneven_shares(const CostModel& cost, Tokens tokens, std::span<const Member> members) {
  double speed = 0;
  double slowest = members.front().speed;
  for (const Member& member : members) {
    speed += member.speed;
    slowest = std::min(slowest, member.speed);
  }
  // The members with the least capacity for their speed fill up first.
  auto left = static_cast<double>(tokens.value());
  double largest = 0;
  std::size_t open = members.size();
  while (open > 1) {
    const Member& last = members[open - 1];
    const auto held = static_cast<double>(last.capacity);
    if (held * speed >= left * last.speed) break;
    left -= held;
    speed -= last.speed;
    largest = std::max(largest, held);
    --open;
  }
  UnevenShares shares{.tokens_per_speed = left / speed, .time = 0};
  for (std::size_t i = 0; i < open; ++i)
    largest = std::max(largest, shares.tokens_per_speed * members[i].speed);
  const auto degree = static_cast<double>(members.size());
  const double attention = cost.attention_ns_per_pair * shares.tokens_per_speed *
                           static_cast<double>(tokens.value() + 1) / 2;
  const double linear =
      cost.linear_ns_per_token * shares.tokens_per_speed + cost.fixed_ns / slowest;
  const double exchange = (degree - 1) * (cost.hop_fixed_ns + cost.hop_ns_per_token * largest);
  shares.time =
      all_layers(cost, linear + std::max(attention, attention / degree + exchange)).value();
  return shares;
}

std::vector<std::int64_t> whole_tokens(Tokens tokens, std::span<const Member> members,
                                       double tokens_per_speed) {
  std::vector<std::int64_t> shares;
  std::int64_t left = tokens.value();
  for (const Member& member : members) {
    const auto share = static_cast<std::int64_t>(tokens_per_speed * member.speed);
    shares.push_back(std::clamp<std::int64_t>(share, 1, member.capacity));
    left -= shares.back();
  }
  // What rounding left over, one token at a time to members with room; or too much, taken back.
  for (std::size_t i = 0, idle = 0; left != 0 && idle <= members.size();
       i = (i + 1) % members.size()) {
    const std::int64_t step = left > 0 ? 1 : -1;
    const std::int64_t changed = shares[i] + step;
    if (changed < 1 || changed > members[i].capacity) {
      ++idle;
      continue;
    }
    idle = 0;
    shares[i] = changed;
    left -= step;
  }
  WEFT_CHECK(left == 0, "{} of {} tokens fit on no member of {}", left, tokens, members.size());
  return shares;
}

}  // namespace weft
