#include "plan/strip_schedule.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <queue>
#include <utility>

#include "base/random.h"
#include "plan/rank_profile.h"
#include "plan/whole_pool.h"

namespace weft {
namespace {

constexpr std::int32_t kAfterAll = std::numeric_limits<std::int32_t>::max();
// A task that takes more than 1 / 600 of all rank time is large: only those are moved about.
constexpr double kLargeAreaShare = 1.0 / 600;
constexpr std::int64_t kSearchBudget = 12'000;  // placements of single tasks
// Share of the whole sequences' time that levels the ends after the rest has been dealt out.
constexpr double kLevellingShare = 0.04;

struct Gap {
  std::int64_t length = 0;
  std::int32_t rank = 0;
  std::int32_t before_group = 0;
};

struct FreeInterval {
  std::int64_t since = 0;
  RankInterval ranks;
};

class StripScheduler {
 public:
  StripScheduler(const StripInput& input, const CostModel& cost, Tokens capacity, std::int64_t goal)
      : input_(input),
        capacity_(capacity),
        goal_(goal),
        pool_(input.sequences, input.whole, cost, capacity),
        tasks_(input.tasks) {
    result_.next.resize(input.whole.size(), -1);
  }

  StripSchedule run() {
    choose_order();
    place_all();
    give_ranks();
    fill_gaps();
    level_ends();
    return std::move(result_);
  }

 private:
  double area_of(const GangTask& task) const {
    return static_cast<double>(task.degree) * static_cast<double>(task.duration);
  }
  double whole_area() const {
    const double packs = ratio(pool_.left_tokens(), capacity_);
    return static_cast<double>(pool_.left_ns()) + static_cast<double>(pool_.fixed_ns()) * packs;
  }

  // The makespan if everything but the first `num` tasks were a liquid.
  std::int64_t estimate(std::span<const GangTask> large, double liquid) const {
    RankProfile profile(input_.num_ranks);
    for (const GangTask& task : large) {
      profile.take(profile.earliest_start(task.degree, task.duration), task.duration, task.degree);
    }
    return std::max(profile.last_end(), profile.level_of(liquid));
  }

  // Orders the large tasks so that they leave room for the rest below the goal.
  void choose_order() {
    double liquid = whole_area();
    for (const GangTask& task : tasks_) liquid += area_of(task);
    const auto small = std::stable_partition(
        tasks_.begin(), tasks_.end(),
        [&](const GangTask& task) { return area_of(task) > liquid * kLargeAreaShare; });
    const std::span large(tasks_.begin(), small);
    if (large.size() < 2) return;
    for (const GangTask& task : large) liquid -= area_of(task);
    std::int64_t best = estimate(large, liquid);
    std::vector<GangTask> order(large.begin(), large.end());
    const auto try_order = [&] {
      const std::int64_t found = estimate(order, liquid);
      if (found >= best) return false;
      best = found;
      std::copy(order.begin(), order.end(), large.begin());
      return true;
    };
    if (best <= goal_) return;
    std::stable_sort(order.begin(), order.end(), [&](const GangTask& a, const GangTask& b) {
      return area_of(a) > area_of(b);
    });
    try_order();
    const RandomStream random(0, "strip order");
    std::uint64_t draw = 0;
    const auto size = static_cast<std::int64_t>(large.size());
    for (std::int64_t spent = 0; best > goal_ && spent + size <= kSearchBudget; spent += size) {
      order.assign(large.begin(), large.end());
      const auto from = static_cast<std::ptrdiff_t>(random.below(draw++, order.size()));
      const auto to = static_cast<std::ptrdiff_t>(random.below(draw++, order.size()));
      if (from < to) {
        std::rotate(order.begin() + from, order.begin() + from + 1, order.begin() + to + 1);
      } else {
        std::rotate(order.begin() + to, order.begin() + from, order.begin() + from + 1);
      }
      try_order();
    }
  }

  void place_all() {
    RankProfile profile(input_.num_ranks);
    starts_.resize(tasks_.size());
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      starts_[i] = profile.earliest_start(tasks_[i].degree, tasks_[i].duration);
      profile.take(starts_[i], tasks_[i].duration, tasks_[i].degree);
    }
  }

  // Takes `degree` ranks that are free now, those free for the shortest time first.
  std::vector<RankInterval> take_free(std::int32_t degree, std::int64_t now, std::int32_t group) {
    std::vector<RankInterval> taken;
    while (degree > 0) {
      std::size_t chosen = free_.size() - 1;
      const auto size_of = [&](std::size_t i) { return free_[i].ranks.end - free_[i].ranks.begin; };
      for (std::size_t i = chosen; i-- > 0 && free_[i].since == free_.back().since;) {
        const bool fits = size_of(i) >= degree;
        const bool chosen_fits = size_of(chosen) >= degree;
        if (fits != chosen_fits ? fits
                                : (fits ? size_of(i) < size_of(chosen) : size_of(i) > size_of(chosen)))
          chosen = i;
      }
      FreeInterval& from = free_[chosen];
      const std::int32_t count = std::min(degree, size_of(chosen));
      const RankInterval ranks{from.ranks.begin, from.ranks.begin + count};
      if (from.since < now) {
        for (std::int32_t rank = ranks.begin; rank < ranks.end; ++rank)
          gaps_.push_back({now - from.since, rank, group});
      }
      from.ranks.begin += count;
      if (from.ranks.begin == from.ranks.end)
        free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(chosen));
      taken.push_back(ranks);
      degree -= count;
    }
    std::sort(taken.begin(), taken.end(),
              [](const RankInterval& a, const RankInterval& b) { return a.begin < b.begin; });
    std::size_t last = 0;
    for (std::size_t i = 1; i < taken.size(); ++i) {
      if (taken[i].begin == taken[last].end) {
        taken[last].end = taken[i].end;
      } else {
        taken[++last] = taken[i];
      }
    }
    taken.resize(last + 1);
    return taken;
  }

  void release(std::int64_t now, const std::vector<RankInterval>& ranks) {
    for (const RankInterval& interval : ranks) free_.push_back({now, interval});
  }

  void give_ranks() {
    std::vector<std::uint32_t> by_start(tasks_.size());
    std::iota(by_start.begin(), by_start.end(), 0);
    std::stable_sort(by_start.begin(), by_start.end(), [&](std::uint32_t a, std::uint32_t b) {
      return starts_[a] < starts_[b];
    });
    free_.push_back({0, {input_.first_rank, input_.first_rank + input_.num_ranks}});
    using End = std::pair<std::int64_t, std::uint32_t>;  // (end, index into result_.groups)
    std::priority_queue<End, std::vector<End>, std::greater<>> running;
    for (const std::uint32_t task_idx : by_start) {
      const GangTask& task = tasks_[task_idx];
      const std::int64_t start = starts_[task_idx];
      for (; !running.empty() && running.top().first <= start; running.pop())
        release(running.top().first, result_.groups[running.top().second].ranks);
      const auto group = static_cast<std::int32_t>(result_.groups.size());
      result_.groups.push_back({.sequence_idx = task.sequence_idx,
                                .start = start,
                                .ranks = take_free(task.degree, start, group)});
      running.emplace(start + task.duration, group);
    }
    for (; !running.empty(); running.pop())
      release(running.top().first, result_.groups[running.top().second].ranks);
  }

  std::int32_t open_pack(std::int32_t rank, std::int32_t before_group) {
    result_.packs.push_back({.rank = rank, .before_group = before_group});
    rooms_.push_back(capacity_);
    return static_cast<std::int32_t>(result_.packs.size()) - 1;
  }
  void put(std::int32_t pack, std::size_t position) {
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

  // Fills `ns` of the rank's time with packs; returns what is left of it and the last pack.
  std::pair<std::int64_t, std::int32_t> fill(std::int32_t rank, std::int32_t before_group,
                                             std::int64_t ns) {
    std::int32_t pack = -1;
    while (true) {
      std::size_t position = WholePool::kNone;
      if (pack >= 0) position = pool_.longest_within(rooms_[static_cast<std::size_t>(pack)], ns);
      if (position == WholePool::kNone) {
        position = pool_.longest_within(capacity_, ns - pool_.fixed_ns());
        if (position == WholePool::kNone) return {ns, pack};
        pack = open_pack(rank, before_group);
        ns -= pool_.fixed_ns();
      }
      ns -= pool_.ns(position);
      put(pack, position);
    }
  }

  void fill_gaps() {
    std::stable_sort(gaps_.begin(), gaps_.end(),
                     [](const Gap& a, const Gap& b) { return a.length > b.length; });
    for (const Gap& gap : gaps_) fill(gap.rank, gap.before_group, gap.length);
  }

  // The level to which the remaining whole sequences rise over the ends, which are ascending.
  std::int64_t water_level(const std::vector<FreeInterval>& ends) const {
    double left = whole_area();
    double width = 0;
    auto surface = static_cast<double>(ends.front().since);
    for (const FreeInterval& end : ends) {
      const double rise = (static_cast<double>(end.since) - surface) * width;
      if (rise >= left) break;
      left -= rise;
      surface = static_cast<double>(end.since);
      width += end.ranks.end - end.ranks.begin;
    }
    return static_cast<std::int64_t>(surface + left / width);
  }

  void level_ends() {
    struct Top {
      std::int64_t end = 0;
      std::int32_t rank = 0;
      std::int32_t pack = -1;  // the last one, which may have room
      bool operator>(const Top& other) const {
        return end != other.end ? end > other.end : rank > other.rank;
      }
    };
    const std::int64_t level = water_level(free_);
    const auto margin = static_cast<std::int64_t>(
        kLevellingShare * static_cast<double>(pool_.left_ns()) / input_.num_ranks);
    std::priority_queue<Top, std::vector<Top>, std::greater<>> tops;
    for (const FreeInterval& interval : free_) {
      for (std::int32_t rank = interval.ranks.begin; rank < interval.ranks.end; ++rank) {
        Top top{.end = interval.since, .rank = rank};
        const std::int64_t room = level - margin - top.end;
        if (room > 0) {
          const auto [left, pack] = fill(rank, kAfterAll, room);
          top.end += room - left;
          top.pack = pack;
        }
        tops.push(top);
      }
    }
    for (std::size_t position = pool_.first_left(); position < input_.whole.size();
         position = pool_.first_left()) {
      Top top = tops.top();
      tops.pop();
      if (top.pack < 0 ||
          rooms_[static_cast<std::size_t>(top.pack)] < pool_.tokens(position)) {
        top.pack = open_pack(top.rank, kAfterAll);
        top.end += pool_.fixed_ns();
      }
      top.end += pool_.ns(position);
      put(top.pack, position);
      tops.push(top);
    }
    for (; !tops.empty(); tops.pop()) result_.makespan = std::max(result_.makespan, tops.top().end);
  }

  const StripInput& input_;
  Tokens capacity_;
  std::int64_t goal_;
  WholePool pool_;
  std::vector<GangTask> tasks_;
  std::vector<std::int64_t> starts_;  // [tasks]
  std::vector<FreeInterval> free_;    // ascending since
  std::vector<Gap> gaps_;
  std::vector<Tokens> rooms_;  // [packs]
  StripSchedule result_;
};

}  // namespace

StripSchedule schedule_strip(const StripInput& input, const CostModel& cost, Tokens capacity,
                             std::int64_t goal) {
  return StripScheduler(input, cost, capacity, goal).run();
}

}  // namespace weft
