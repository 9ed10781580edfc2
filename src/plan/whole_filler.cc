#include "plan/whole_filler.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <utility>

#include "base/error.h"

namespace weft {
namespace {

constexpr std::int32_t kAfterAll = std::numeric_limits<std::int32_t>::max();
// Share of the whole sequences' time that levels the ends after the rest has been dealt out.
constexpr double kLevellingShare = 0.04;

std::int64_t at_speed(std::int64_t ns, double speed) {
  return speed == 1.0 ? ns : static_cast<std::int64_t>(static_cast<double>(ns) / speed) + 1;
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
      pool_(input.sequences, input.whole, cost, capacity),
      result_(result) {
  result_.next.resize(input.whole.size(), -1);
}

double WholeFiller::speed_of(std::int32_t rank) const { return cluster_.speed_of(Rank(rank)); }

Tokens WholeFiller::capacity_of(std::int32_t rank) const {
  return cluster_.memory.empty() ? capacity_ : cluster_.capacity_of(Rank(rank), capacity_);
}

double WholeFiller::left_area() const {
  const double packs = ratio(pool_.left_tokens(), capacity_);
  return static_cast<double>(pool_.left_ns()) + static_cast<double>(pool_.fixed_ns()) * packs;
}

std::int32_t WholeFiller::open_pack(std::int32_t rank, std::int32_t before_group) {
  result_.packs.push_back({.rank = rank, .before_group = before_group});
  rooms_.push_back(capacity_of(rank));
  return static_cast<std::int32_t>(result_.packs.size()) - 1;
}

void WholeFiller::put(std::int32_t pack, std::size_t position) {
  StripPack& into = result_.packs[static_cast<std::size_t>(pack)];
  const auto place = static_cast<std::int32_t>(position);
  if (into.num_sequences++ == 0) {
    into.first = place;
  } else {
    result_.next[static_cast<std::size_t>(into.last)] = place;
  }
  into.last = place;
  rooms_[static_cast<std::size_t>(pack)] -= pool_.tokens(position);
  pool_.remove(position);
}

WholeFiller::Fill WholeFiller::fill(std::int32_t rank, std::int32_t before_group, std::int64_t ns) {
  Fill result{.left_ns = ns, .pack = -1};
  const Tokens capacity = capacity_of(rank);
  while (true) {
    std::size_t position = WholePool::kNone;
    if (result.pack >= 0) {
      position =
          pool_.longest_within(rooms_[static_cast<std::size_t>(result.pack)], result.left_ns);
    }
    if (position == WholePool::kNone) {
      position = pool_.longest_within(capacity, result.left_ns - pool_.fixed_ns());
      if (position == WholePool::kNone) return result;
      result.pack = open_pack(rank, before_group);
      result.left_ns -= pool_.fixed_ns();
    }
    result.left_ns -= pool_.ns(position);
    put(result.pack, position);
  }
}

void WholeFiller::fill_gap(const RankGap& gap) {
  fill(gap.rank, gap.before_group, room_at_speed(gap.length, speed_of(gap.rank)));
}

// The level to which what is left rises over the ends, which are ascending.
std::int64_t WholeFiller::water_level(const std::vector<RankEnd>& ends) const {
  double left = left_area();
  double width = 0;
  auto surface = static_cast<double>(ends.front().end);
  for (const RankEnd& end : ends) {
    const double rise = (static_cast<double>(end.end) - surface) * width;
    if (rise >= left) break;
    left -= rise;
    surface = static_cast<double>(end.end);
    width += speed_of(end.rank);
  }
  return static_cast<std::int64_t>(surface + left / width);
}

void WholeFiller::level(std::vector<RankEnd> ends) {
  std::stable_sort(ends.begin(), ends.end(),
                   [](const RankEnd& a, const RankEnd& b) { return a.end < b.end; });
  const std::int64_t top = water_level(ends);
  const auto margin = static_cast<std::int64_t>(
      kLevellingShare * static_cast<double>(pool_.left_ns()) / input_.num_ranks);
  std::vector<std::int32_t> packs(ends.size(), -1);
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const double speed = speed_of(ends[i].rank);
    const std::int64_t room = room_at_speed(top - margin - ends[i].end, speed);
    if (room <= 0) continue;
    const Fill filled = fill(ends[i].rank, kAfterAll, room);
    ends[i].end += at_speed(room - filled.left_ns, speed);
    packs[i] = filled.pack;
  }
  deal_out(std::move(ends), packs);
}

// Longest first to the rank that would end first with it.
void WholeFiller::deal_out(std::vector<RankEnd> ends, const std::vector<std::int32_t>& packs) {
  struct Top {
    std::int64_t key = 0;  // the end with a sequence of mean length: slow ranks come later
    std::int64_t end = 0;
    double speed = 1;
    std::int32_t rank = 0;
    std::int32_t pack = -1;  // the last one, which may have room
    bool operator>(const Top& other) const {
      return key != other.key ? key > other.key : rank > other.rank;
    }
  };
  const std::int64_t mean_ns =
      pool_.num_left() == 0 ? 0 : pool_.left_ns() / static_cast<std::int64_t>(pool_.num_left());
  std::priority_queue<Top, std::vector<Top>, std::greater<>> tops;
  const auto push = [&](Top top) {
    top.key = top.end + (top.speed == 1.0 ? mean_ns : at_speed(mean_ns, top.speed));
    tops.push(top);
  };
  for (std::size_t i = 0; i < ends.size(); ++i) {
    push({.key = 0,
          .end = ends[i].end,
          .speed = speed_of(ends[i].rank),
          .rank = ends[i].rank,
          .pack = packs[i]});
  }
  std::vector<Top> too_small;
  for (std::size_t position = pool_.first_left(); position < input_.whole.size();
       position = pool_.first_left()) {
    const Tokens tokens = pool_.tokens(position);
    while (capacity_of(tops.top().rank) < tokens) {  // of a rank with little memory
      too_small.push_back(tops.top());
      tops.pop();
      WEFT_CHECK(!tops.empty(), "no rank holds a whole sequence of {} tokens", tokens);
    }
    Top top = tops.top();
    tops.pop();
    if (top.pack < 0 || rooms_[static_cast<std::size_t>(top.pack)] < tokens) {
      top.pack = open_pack(top.rank, kAfterAll);
      top.end += at_speed(pool_.fixed_ns(), top.speed);
    }
    top.end += at_speed(pool_.ns(position), top.speed);
    put(top.pack, position);
    push(top);
    for (const Top& small : too_small) tops.push(small);
    too_small.clear();
  }
  for (; !tops.empty(); tops.pop()) result_.makespan = std::max(result_.makespan, tops.top().end);
}

}  // namespace weft
