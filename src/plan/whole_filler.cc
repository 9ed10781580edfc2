#include "plan/whole_filler.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

#include "base/error.h"
#include "cost/micro_batch_time.h"
#include "plan/deal_order.h"

namespace weft {
namespace {

constexpr std::int32_t kAfterAll = std::numeric_limits<std::int32_t>::max();
// Shares of the whole sequences' time that level the ends after the rest has been dealt out: the
// finer ones on ranks that are all alike, while this many sequences a rank are left.
constexpr std::array<double, 3> kLevellingShares{0.04, 0.01, 0.0025};
constexpr std::size_t kManyLeft = 4;
// With fewer a rank, all are dealt one by one: raised ends would be too uneven for what is left.
constexpr std::size_t kManyToRaise = 10;
// Beside groups: from this share of a full micro-batch's work its fixed cost is worth it ...
constexpr double kLargeFixedShare = 0.05;
// ... where a member has at least this part of the capacity left, filled until less than the other
// is ...
constexpr std::int64_t kLeastRoom = 32;
constexpr std::int64_t kSpareRoom = 128;
// ... and while at least this share of the tokens of whole sequences stays for gaps and ends.
constexpr double kKeptForEnds = 0.4;

std::int64_t at_speed(std::int64_t ns, double speed) {
  return speed == 1.0 ? ns : static_cast<std::int64_t>(static_cast<double>(ns) / speed) + 1;
}
// Of a micro-batch, against the work of one that is a sequence of the capacity.
double fixed_share(const CostModel& cost, Tokens capacity) {
  const double work = compute_ns(cost, causal_work({0, capacity.value()}), capacity);
  return work > 0 ? cost.fixed_ns / work : 0;
}

std::int64_t room_at_speed(std::int64_t ns, double speed) {
  return speed == 1.0 ? ns : static_cast<std::int64_t>(static_cast<double>(ns) * speed);
}

}  // namespace

WholeFiller::WholeFiller(const StripInput& input, const CostModel& cost, const ClusterSpec& cluster,
                         Tokens capacity, StripSchedule& result)
    : input_(input),
      cluster_(cluster),
      capacity_(capacity),
      fixed_share_(fixed_share(cost, capacity)),
      pool_(input.sequences, input.whole, cost, capacity),
      beside_limit_(static_cast<std::int64_t>(kKeptForEnds *
                                              static_cast<double>(pool_.left_tokens().value()))),
      result_(result) {}

double WholeFiller::speed_of(std::int32_t rank) const { return cluster_.speed_of(Rank(rank)); }

Tokens WholeFiller::capacity_of(std::int32_t rank) const {
  return cluster_.memory.empty() ? capacity_ : cluster_.capacity_of(Rank(rank), capacity_);
}

double WholeFiller::left_area() const {
  const double packs = ratio(pool_.left_tokens(), capacity_);
  return static_cast<double>(pool_.left_ns()) + static_cast<double>(pool_.fixed_ns()) * packs;
}

std::int32_t WholeFiller::open_pack(std::int32_t rank, std::int32_t before_group) {
  result_.packs.push_back({.rank = rank, .before_group = before_group, .room = capacity_of(rank)});
  return static_cast<std::int32_t>(result_.packs.size()) - 1;
}

void WholeFiller::put(StripPack& into, std::size_t length, std::int32_t count) {
  const auto place = static_cast<std::int32_t>(result_.runs.size());
  if (into.num_sequences == 0) {
    into.first = place;
  } else {
    result_.runs[static_cast<std::size_t>(into.last)].next = place;
  }
  into.last = place;
  into.num_sequences += count;
  into.room -= pool_.tokens(length) * count;
  result_.runs.push_back({.sequences = pool_.take(length, count), .tokens = pool_.tokens(length)});
}

WholeFiller::Fill WholeFiller::fill(std::int32_t rank, std::int32_t before_group, std::int64_t ns,
                                    std::int32_t pack) {
  Fill result{.left_ns = ns, .pack = pack};
  const Tokens capacity = capacity_of(rank);
  while (true) {
    std::size_t length = WholePool::kNone;
    if (result.pack >= 0) {
      length = pool_.longest_within(pack_at(result.pack).room, result.left_ns);
    }
    if (length == WholePool::kNone) {
      length = pool_.longest_within(capacity, result.left_ns - pool_.fixed_ns());
      if (length == WholePool::kNone) return result;
      result.pack = open_pack(rank, before_group);
      result.left_ns -= pool_.fixed_ns();
    }
    // Longest first takes as many of this length as fit.
    const Tokens room = pack_at(result.pack).room;
    std::int64_t count = pool_.num_of(length);
    if (count > 1) {
      count = std::min(count, room.value() / pool_.tokens(length).value());
      if (pool_.ns(length) > 0) count = std::min(count, result.left_ns / pool_.ns(length));
    }
    result.left_ns -= pool_.ns(length) * count;
    put(pack_at(result.pack), length, static_cast<std::int32_t>(count));
  }
}

void WholeFiller::fill_gap(const RankGap& gap) {
  fill(gap.rank, gap.before_group, room_at_speed(gap.length, speed_of(gap.rank)), -1);
}

bool WholeFiller::fixed_cost_is_large() const { return fixed_share_ >= kLargeFixedShare; }

std::int64_t WholeFiller::fill_beside(GangTask& task, std::int64_t ns) {
  const Tokens tokens = input_.sequences[static_cast<std::size_t>(task.sequence_idx)].tokens;
  const Tokens share((tokens.value() + task.degree - 1) / task.degree);
  const Tokens room = capacity_ - share;
  if (ns <= 0 || room < capacity_ / kLeastRoom ||
      pool_.left_tokens() - room * task.degree < beside_limit_)
    return 0;
  const std::size_t first = result_.beside.size();
  task.first_beside = static_cast<std::int32_t>(first);
  result_.beside.resize(first + static_cast<std::size_t>(task.degree), StripPack{.room = room});
  return fill_alike(std::span(result_.beside).subspan(first), ns);
}

// Longest first to the pack that took the least time so far.
std::int64_t WholeFiller::fill_alike(std::span<StripPack> packs, std::int64_t ns) {
  const double speed = speed_of(input_.first_rank);
  using Open = std::pair<std::int64_t, std::size_t>;  // (ns, pack)
  std::priority_queue<Open, std::vector<Open>, std::greater<>> open;
  for (std::size_t i = 0; i < packs.size(); ++i) open.emplace(0, i);
  std::int64_t longest = 0;
  while (!open.empty()) {
    const auto [taken, i] = open.top();
    open.pop();
    if (packs[i].room < capacity_ / kSpareRoom) continue;
    const std::size_t length =
        pool_.longest_within(packs[i].room, room_at_speed(ns - taken, speed));
    if (length == WholePool::kNone) continue;
    const std::int64_t longer = taken + at_speed(pool_.ns(length), speed);
    longest = std::max(longest, longer);
    put(packs[i], length, 1);
    open.emplace(longer, i);
  }
  return longest;
}

// The level to which `left` rises over the ends.
std::int64_t WholeFiller::water_level(double left, const std::vector<RankEnd>& ends) const {
  double top = std::numeric_limits<double>::infinity();
  // Without the ends above it a level falls, and more ends may lie above it.
  while (true) {
    double area = left;
    double width = 0;
    auto highest = static_cast<double>(std::numeric_limits<std::int64_t>::min());
    for (const RankEnd& end : ends) {
      const auto own = static_cast<double>(end.end);
      if (own > top) continue;
      const double speed = speed_of(end.rank);
      area += own * speed;
      width += speed;
      highest = std::max(highest, own);
    }
    if (width > 0) top = area / width;  // rounding may leave the lowest end above its level
    if (width == 0 || highest <= top) return static_cast<std::int64_t>(top);
  }
}

void WholeFiller::raise(double area, std::int64_t margin, std::vector<RankEnd>& ends,
                        std::vector<std::int32_t>& packs) {
  const std::int64_t top = water_level(area, ends);
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const double speed = speed_of(ends[i].rank);
    const std::int64_t room = room_at_speed(top - margin - ends[i].end, speed);
    if (room <= 0) continue;
    const Fill filled = fill(ends[i].rank, kAfterAll, room, packs[i]);
    ends[i].end += at_speed(room - filled.left_ns, speed);
    packs[i] = filled.pack;
  }
}

void WholeFiller::level(std::vector<RankEnd> ends) {
  std::stable_sort(ends.begin(), ends.end(),
                   [](const RankEnd& a, const RankEnd& b) { return a.end < b.end; });
  const double mean_ns = static_cast<double>(pool_.left_ns()) / input_.width();
  std::vector<std::int32_t> packs(ends.size(), -1);
  double area = left_area();
  if (!input_.is_uneven && pool_.num_left() < kManyToRaise * ends.size())
    return deal_out(std::move(ends), std::move(packs));
  for (const double share : kLevellingShares) {
    raise(area, static_cast<std::int64_t>(share * mean_ns), ends, packs);
    if (input_.is_uneven || pool_.num_left() < kManyLeft * ends.size()) break;
    // Open packs may hold what is left: a level too high would leave nothing for the last ranks.
    area = static_cast<double>(pool_.left_ns());
  }
  deal_out(std::move(ends), std::move(packs));
}

void WholeFiller::deal_out(std::vector<RankEnd> ends, std::vector<std::int32_t> packs) {
  const std::int64_t mean_ns =
      pool_.num_left() == 0 ? 0 : pool_.left_ns() / static_cast<std::int64_t>(pool_.num_left());
  const auto end_with_mean = [&](std::size_t i) {
    return ends[i].end + at_speed(mean_ns, speed_of(ends[i].rank));
  };
  const auto room_of = [&](std::size_t i) {
    return packs[i] < 0 ? Tokens(0) : pack_at(packs[i]).room;
  };
  std::vector<DealOrder::RankState> states(ends.size());
  for (std::size_t i = 0; i < ends.size(); ++i) {
    states[i] = {.end = end_with_mean(i),
                 .fixed_ns = at_speed(pool_.fixed_ns(), speed_of(ends[i].rank)),
                 .room = room_of(i),
                 .capacity = capacity_of(ends[i].rank)};
  }
  DealOrder order(std::move(states));
  for (std::size_t length = pool_.longest(); length != WholePool::kNone; length = pool_.longest()) {
    const Tokens tokens = pool_.tokens(length);
    const std::size_t i = order.choose(tokens);
    WEFT_CHECK(i != DealOrder::kNone, "no rank holds a whole sequence of {} tokens", tokens);
    const double speed = speed_of(ends[i].rank);
    if (order.needs_micro_batch(i, tokens)) {
      packs[i] = open_pack(ends[i].rank, kAfterAll);
      ends[i].end += at_speed(pool_.fixed_ns(), speed);
    }
    ends[i].end += at_speed(pool_.ns(length), speed);
    put(pack_at(packs[i]), length, 1);
    order.update(i, end_with_mean(i), room_of(i));
  }
  for (const RankEnd& end : ends) result_.makespan = std::max(result_.makespan, end.end);
}

}  // namespace weft
