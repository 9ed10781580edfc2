#include "plan/whole_filler.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <utility>

#include "base/error.h"

namespace weft {
namespace {

constexpr std::int32_t kAfterAll = std::numeric_limits<std::int32_t>::max();
// Shares of the whole sequences' time that level the ends after the rest has been dealt out: the
// finer ones on ranks that are all alike, while this many sequences a rank are left.
constexpr std::array<double, 3> kLevellingShares{0.04, 0.01, 0.0025};
constexpr std::size_t kManyLeft = 4;
// Beside groups: from this share of a full micro-batch's linear work its fixed cost is worth it ...
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
// Puts another item in the place of the least one of a heap.
template <class Item>
void replace_top(std::vector<Item>& heap, const Item& item) {
  std::size_t at = 0;
  for (std::size_t child = 1; child < heap.size(); child = 2 * at + 1) {
    if (child + 1 < heap.size() && heap[child] > heap[child + 1]) ++child;
    if (!(item > heap[child])) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = item;
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
      fixed_share_(cost.fixed_ns /
                   (cost.linear_ns_per_token * static_cast<double>(capacity.value()))),
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

void WholeFiller::put(std::int32_t pack, std::size_t length, std::int32_t count) {
  put(result_.packs[static_cast<std::size_t>(pack)], length, count);
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
      length = pool_.longest_within(result_.packs[static_cast<std::size_t>(result.pack)].room,
                                    result.left_ns);
    }
    if (length == WholePool::kNone) {
      length = pool_.longest_within(capacity, result.left_ns - pool_.fixed_ns());
      if (length == WholePool::kNone) return result;
      result.pack = open_pack(rank, before_group);
      result.left_ns -= pool_.fixed_ns();
    }
    // Longest first takes as many of this length as fit.
    const Tokens room = result_.packs[static_cast<std::size_t>(result.pack)].room;
    std::int64_t count = pool_.num_of(length);
    if (count > 1) {
      count = std::min(count, room.value() / pool_.tokens(length).value());
      if (pool_.ns(length) > 0) count = std::min(count, result.left_ns / pool_.ns(length));
    }
    result.left_ns -= pool_.ns(length) * count;
    put(result.pack, length, static_cast<std::int32_t>(count));
  }
}

void WholeFiller::fill_gap(const RankGap& gap) {
  fill(gap.rank, gap.before_group, room_at_speed(gap.length, speed_of(gap.rank)), -1);
}

bool WholeFiller::fixed_cost_is_large() const { return fixed_share_ >= kLargeFixedShare; }

std::int64_t WholeFiller::fill_beside(GangTask& task) {
  const Tokens tokens = input_.sequences[static_cast<std::size_t>(task.sequence_idx)].tokens;
  const Tokens share((tokens.value() + task.degree - 1) / task.degree);
  const Tokens room = capacity_ - share;
  if (room < capacity_ / kLeastRoom || pool_.left_tokens() - room * task.degree < beside_limit_)
    return 0;
  const std::size_t first = result_.beside.size();
  task.first_beside = static_cast<std::int32_t>(first);
  result_.beside.resize(first + static_cast<std::size_t>(task.degree), StripPack{.room = room});
  return fill_alike(std::span(result_.beside).subspan(first));
}

// Longest first to the pack that took the least time so far.
std::int64_t WholeFiller::fill_alike(std::span<StripPack> packs) {
  struct Open {
    std::int64_t ns = 0;
    std::size_t pack = 0;
    bool operator>(const Open& other) const {
      return ns != other.ns ? ns > other.ns : pack > other.pack;
    }
  };
  const double speed = speed_of(input_.first_rank);
  std::vector<Open> heap;  // the least first
  for (std::size_t i = 0; i < packs.size(); ++i) heap.push_back({.ns = 0, .pack = i});
  std::int64_t longest = 0;
  while (!heap.empty()) {
    Open least = heap.front();
    StripPack& pack = packs[least.pack];
    const std::size_t length =
        pool_.longest_within(pack.room, std::numeric_limits<std::int64_t>::max());
    if (length == WholePool::kNone || pack.room < capacity_ / kSpareRoom) {
      std::pop_heap(heap.begin(), heap.end(), std::greater<>());
      heap.pop_back();
      continue;
    }
    least.ns += at_speed(pool_.ns(length), speed);
    longest = std::max(longest, least.ns);
    put(pack, length, 1);
    replace_top(heap, least);
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
  const double mean_ns = static_cast<double>(pool_.left_ns()) / input_.num_ranks;
  std::vector<std::int32_t> packs(ends.size(), -1);
  double area = left_area();
  for (const double share : kLevellingShares) {
    raise(area, static_cast<std::int64_t>(share * mean_ns), ends, packs);
    if (!cluster_.is_uniform() || pool_.num_left() < kManyLeft * ends.size()) break;
    // Open packs may hold what is left: a level too high would leave nothing for the last ranks.
    area = static_cast<double>(pool_.left_ns());
  }
  deal_out(std::move(ends), std::move(packs));
}

// Longest first to the rank that would end first with it, and with its fixed cost where it needs a
// micro-batch more.
void WholeFiller::deal_out(std::vector<RankEnd> ends, std::vector<std::int32_t> packs) {
  const std::int64_t mean_ns =
      pool_.num_left() == 0 ? 0 : pool_.left_ns() / static_cast<std::int64_t>(pool_.num_left());
  // Ranks by their end with a sequence of mean length: slow ones come later.
  struct Top {
    std::int64_t key = 0;
    std::int32_t rank = 0;
    std::uint32_t idx = 0;  // into ends and packs
    bool operator>(const Top& other) const {
      return key != other.key ? key > other.key : rank > other.rank;
    }
  };
  const auto needs_pack = [&](std::size_t i, Tokens tokens) {
    return packs[i] < 0 || result_.packs[static_cast<std::size_t>(packs[i])].room < tokens;
  };
  const auto top_of = [&](std::size_t i, Tokens tokens) {
    const std::int64_t fixed = needs_pack(i, tokens) ? pool_.fixed_ns() : 0;
    return Top{ends[i].end + at_speed(mean_ns + fixed, speed_of(ends[i].rank)), ends[i].rank,
               static_cast<std::uint32_t>(i)};
  };
  std::vector<Top> tops;
  tops.reserve(ends.size());
  for (std::size_t i = 0; i < ends.size(); ++i) tops.push_back(top_of(i, Tokens(0)));
  std::make_heap(tops.begin(), tops.end(), std::greater<>());
  std::vector<Top> too_small;
  for (std::size_t length = pool_.longest(); length != WholePool::kNone; length = pool_.longest()) {
    const Tokens tokens = pool_.tokens(length);
    while (true) {
      if (capacity_of(tops.front().rank) < tokens) {  // a rank with little memory
        too_small.push_back(tops.front());
        std::pop_heap(tops.begin(), tops.end(), std::greater<>());
        tops.pop_back();
        WEFT_CHECK(!tops.empty(), "no rank holds a whole sequence of {} tokens", tokens);
        continue;
      }
      // Its key was made for any length; this one may need another micro-batch.
      const Top now = top_of(tops.front().idx, tokens);
      if (!(now > tops.front())) break;
      replace_top(tops, now);
    }
    const std::size_t i = tops.front().idx;
    const std::int32_t rank = ends[i].rank;
    const double speed = speed_of(rank);
    if (needs_pack(i, tokens)) {
      packs[i] = open_pack(rank, kAfterAll);
      ends[i].end += at_speed(pool_.fixed_ns(), speed);
    }
    ends[i].end += at_speed(pool_.ns(length), speed);
    put(packs[i], length, 1);
    replace_top(tops, top_of(i, Tokens(0)));
    for (const Top& small : too_small) {
      tops.push_back(small);
      std::push_heap(tops.begin(), tops.end(), std::greater<>());
    }
    too_small.clear();
  }
  for (const RankEnd& end : ends) result_.makespan = std::max(result_.makespan, end.end);
}

}  // namespace weft
