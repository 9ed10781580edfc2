#include "plan/uneven_group.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "cost/micro_batch_time.h"

namespace weft {
namespace {

using Shares = std::vector<double>;  // tokens of each member, not yet whole

// min(capacity, level * weight) of each member, their sum the sequence's tokens.
Shares fill_to_level(Tokens tokens, std::span<const Member> members, const auto& weight) {
  Shares shares(members.size());
  auto left = static_cast<double>(tokens.value());
  double open = 0;  // weight of the members that are not full
  for (const Member& member : members) open += weight(member);
  std::vector<bool> is_full(members.size());
  // Each round fills those that the level overflows; at most one round a member.
  for (bool is_changed = true; is_changed;) {
    is_changed = false;
    const double level = left / open;
    for (std::size_t i = 0; i < members.size(); ++i) {
      const auto held = static_cast<double>(members[i].capacity);
      if (is_full[i] || level * weight(members[i]) < held) continue;
      is_full[i] = is_changed = true;
      shares[i] = held;
      left -= held;
      open -= weight(members[i]);
    }
    if (open <= 0 || left <= 0) break;
  }
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (!is_full[i]) shares[i] = std::max(0.0, left) / open * weight(members[i]);
  }
  return shares;
}

// Whole tokens for each member, at least 1 and at most what it holds, their sum the sequence's.
std::vector<std::int64_t> whole_tokens(Tokens tokens, std::span<const Member> members,
                                       const Shares& shares) {
  std::vector<std::int64_t> whole;
  std::int64_t left = tokens.value();
  for (std::size_t i = 0; i < members.size(); ++i) {
    whole.push_back(
        std::clamp<std::int64_t>(static_cast<std::int64_t>(shares[i]), 1, members[i].capacity));
    left -= whole.back();
  }
  // What rounding left over, one token at a time to members with room; or too much, taken back.
  for (std::size_t i = 0, idle = 0; left != 0 && idle <= members.size();
       i = (i + 1) % members.size()) {
    const std::int64_t step = left > 0 ? 1 : -1;
    const std::int64_t changed = whole[i] + step;
    if (changed < 1 || changed > members[i].capacity) {
      ++idle;
      continue;
    }
    idle = 0;
    whole[i] = changed;
    left -= step;
  }
  WEFT_CHECK(left == 0, "{} of {} tokens fit on no member of {}", left, tokens, members.size());
  return whole;
}

// Finds the least time of a slot in which members with given tokens can do all the work of the
// sequence, were it divided at will, and each member's part of it.
class WorkDivision {
 public:
  WorkDivision(const CostModel& cost, Tokens tokens, std::span<const Member> members,
               const Shares& shares)
      : cost_(cost),
        members_(members),
        shares_(shares),
        all_work_(static_cast<double>(causal_work({0, tokens.value()}))),
        most_per_token_(static_cast<double>(tokens.value())),
        degree_(static_cast<double>(members.size())) {
    const double largest = *std::max_element(shares.begin(), shares.end());
    exchange_ = (degree_ - 1) * (cost.hop_fixed_ns + cost.hop_ns_per_token * largest);
  }

  // Per layer forward.
  double time() {
    double low = 0;
    for (std::size_t i = 0; i < members_.size(); ++i) low = std::max(low, rest(i) + exchange_);
    if (cost_.attention_ns_per_pair <= 0 || work_within(low) >= all_work_) return low;
    double high = 2 * low + 1;
    while (work_within(high) < all_work_) high *= 2;
    constexpr int kHalvings = 40;
    for (int i = 0; i < kHalvings; ++i) {
      const double middle = (low + high) / 2;
      (work_within(middle) < all_work_ ? low : high) = middle;
    }
    return high;
  }

  std::vector<double> work(double time) const {
    std::vector<double> work(members_.size());
    double sum = 0;
    for (std::size_t i = 0; i < members_.size(); ++i) sum += work[i] = most_work(i, time);
    // Without a price of work, or with more room than work: by tokens or in proportion.
    for (std::size_t i = 0; i < members_.size(); ++i)
      work[i] = sum > 0 ? work[i] * (all_work_ / sum) : shares_[i] * most_per_token_ / 2;
    return work;
  }

 private:
  double rest(std::size_t i) const {
    return (cost_.linear_ns_per_token * shares_[i] + cost_.fixed_ns) / members_[i].speed;
  }
  // That member i finishes in time, the exchange that its attention does not hide included.
  double most_work(std::size_t i, double time) const {
    if (cost_.attention_ns_per_pair <= 0) return 0;
    const double left = time - rest(i);
    const double attention = std::max(0.0, std::min(left, degree_ * (left - exchange_)));
    return std::min(attention * members_[i].speed / cost_.attention_ns_per_pair,
                    shares_[i] * most_per_token_);
  }
  double work_within(double time) const {
    double sum = 0;
    for (std::size_t i = 0; i < members_.size(); ++i) sum += most_work(i, time);
    return sum;
  }

  const CostModel& cost_;
  std::span<const Member> members_;
  const Shares& shares_;
  double all_work_;
  double most_per_token_;
  double degree_;
  double exchange_ = 0;
};

std::int64_t slot_time(const CostModel& cost, std::span<const Member> members,
                       std::span<const std::int64_t> tokens,
                       std::span<const std::array<TokenRange, 2>> ranges) {
  const Tokens largest(*std::max_element(tokens.begin(), tokens.end()));
  Nanoseconds time;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const std::array<RingShare, 1> share{
        {{.work = causal_work(ranges[i][0]) + causal_work(ranges[i][1]),
          .tokens = Tokens(tokens[i]),
          .degree = static_cast<std::int32_t>(members.size()),
          .largest_member = largest}}};
    time = std::max(time, micro_batch_time(cost, share, members[i].speed));
  }
  return time.value();
}

}  // namespace

std::vector<std::array<TokenRange, 2>> ranges_for_work(std::span<const std::int64_t> tokens,
                                                       std::span<const double> work,
                                                       std::span<const std::uint32_t> order) {
  std::vector<std::array<TokenRange, 2>> ranges(tokens.size());
  std::int64_t begin = 0;
  std::int64_t end = std::accumulate(tokens.begin(), tokens.end(), std::int64_t{0});
  for (const std::uint32_t i : order) {
    const auto cut_at = [&](std::int64_t front) {
      return std::array<TokenRange, 2>{{{begin, begin + front}, {end - (tokens[i] - front), end}}};
    };
    // The least tokens from the front with which the work is not above what is wanted.
    std::int64_t low = 0;
    std::int64_t high = tokens[i];
    while (low < high) {
      const std::int64_t front = low + (high - low) / 2;
      const auto cut = cut_at(front);
      const auto own = static_cast<double>(causal_work(cut[0]) + causal_work(cut[1]));
      if (own > work[i]) {
        low = front + 1;
      } else {
        high = front;
      }
    }
    ranges[i] = cut_at(low);
    begin = ranges[i][0].end;
    end = ranges[i][1].begin;
    if (ranges[i][0].empty()) std::swap(ranges[i][0], ranges[i][1]);
    if (ranges[i][0].end == ranges[i][1].begin && !ranges[i][1].empty())
      ranges[i] = {{{ranges[i][0].begin, ranges[i][1].end}, {0, 0}}};
  }
  return ranges;
}

UnevenCut cut_unevenly(const CostModel& cost, Tokens tokens, std::span<const Member> members) {
  std::array<Shares, 3> choices{
      fill_to_level(tokens, members,
                    [](const Member& member) { return static_cast<double>(member.capacity); }),
      fill_to_level(tokens, members, [](const Member&) { return 1.0; }),
      fill_to_level(tokens, members, [](const Member& member) { return member.speed; })};
  const Shares* best_shares = nullptr;
  double least = std::numeric_limits<double>::infinity();
  for (const Shares& shares : choices) {
    const double time = WorkDivision(cost, tokens, members, shares).time();
    if (time >= least) continue;
    least = time;
    best_shares = &shares;
  }
  const std::vector<double> work = WorkDivision(cost, tokens, members, *best_shares).work(least);
  const std::vector<std::int64_t> whole = whole_tokens(tokens, members, *best_shares);
  // Members in order of work per token, least or most first: one of them nearly always leaves to
  // each member a range that has the work it needs.
  std::vector<std::uint32_t> order(members.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return work[a] * static_cast<double>(whole[b]) < work[b] * static_cast<double>(whole[a]);
  });
  UnevenCut best{.ranges = {}, .time = std::numeric_limits<std::int64_t>::max()};
  for (int turn = 0; turn < 2; ++turn) {
    auto ranges = ranges_for_work(whole, work, order);
    const std::int64_t time = slot_time(cost, members, whole, ranges);
    if (time < best.time) best = {std::move(ranges), time};
    std::reverse(order.begin(), order.end());
  }
  return best;
}

}  // namespace weft
