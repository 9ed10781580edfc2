#include "plan/strip_schedule.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <utility>

#include "base/random.h"
#include "plan/group_costs.h"
#include "plan/node_strip.h"
#include "plan/rank_profile.h"
#include "plan/whole_filler.h"

namespace weft {
namespace {

// A task that takes more than 1 / 600 of all rank time is large: only those are moved about.
constexpr double kLargeAreaShare = 1.0 / 600;
constexpr std::int64_t kSearchBudget = 12'000;  // placements of single tasks
// Where the estimate is still this far above the goal, more are worth their time.
constexpr double kFarFromGoal = 1.005;
constexpr std::int64_t kFarSearchBudget = 100'000;

struct FreeInterval {
  std::int64_t since = 0;
  RankInterval ranks;
};

class StripScheduler {
 public:
  StripScheduler(const StripInput& input, const CostModel& cost, const ClusterSpec& cluster,
                 Tokens capacity, std::int64_t goal, StripSchedule& result)
      : input_(input),
        goal_(goal),
        result_(result),
        has_places_(GroupCosts(cost, cluster).has_places()),
        filler_(input, cost, cluster, capacity, result_),
        tasks_(input.tasks) {}

  void run() {
    if (filler_.fixed_cost_is_large()) fill_beside();
    choose_order();
    place_all();
    if (has_places_) {
      give_ranks_in_nodes();
    } else {
      give_ranks();
    }
    fill_whole();
  }

 private:
  // A group must still end by the goal, were it the first on its ranks.
  void fill_beside() {
    for (GangTask& task : tasks_) {
      const std::int64_t longer =
          filler_.fill_beside(task, goal_ - std::max(task.duration, task.between));
      task.duration += longer;
      task.between += longer;
    }
    sort_longest_first(tasks_);
  }
  double area_of(const GangTask& task) const {
    return static_cast<double>(task.degree) * static_cast<double>(task.duration);
  }
  // The makespan if everything but the first `num` tasks were a liquid.
  std::int64_t estimate(std::span<const GangTask> large, double liquid) const {
    RankProfile profile(input_.num_ranks);
    for (const GangTask& task : large) {
      profile.take(profile.earliest_start(task.degree, task.duration), task.duration, task.degree);
    }
    return std::max(profile.last_end(), profile.level_of(liquid, input_.odd_width));
  }

  // Orders the large tasks so that they leave room for the rest below the goal.
  void choose_order() {
    double liquid = filler_.left_area();
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
      if (found > best) return false;  // an equal one leads on
      best = found;
      std::copy(order.begin(), order.end(), large.begin());
      return true;
    };
    if (best <= goal_) return;
    std::stable_sort(order.begin(), order.end(),
                     [&](const GangTask& a, const GangTask& b) { return area_of(a) > area_of(b); });
    try_order();
    const RandomStream random(0, "strip order");
    std::uint64_t draw = 0;
    const auto size = static_cast<std::int64_t>(large.size());
    const auto far = static_cast<std::int64_t>(static_cast<double>(goal_) * kFarFromGoal);
    for (std::int64_t spent = 0;
         best > goal_ && spent + size <= (best > far ? kFarSearchBudget : kSearchBudget);
         spent += size) {
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
        if (fits != chosen_fits
                ? fits
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

  std::vector<std::uint32_t> tasks_by_start() const {
    std::vector<std::uint32_t> by_start(tasks_.size());
    std::iota(by_start.begin(), by_start.end(), 0);
    std::stable_sort(by_start.begin(), by_start.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return starts_[a] < starts_[b]; });
    return by_start;
  }

  void give_ranks_in_nodes() {
    NodeStrip strip(input_);
    // Of those that start together the widest first: the others fill what they leave of nodes.
    std::vector<std::uint32_t> order = tasks_by_start();
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return std::pair(starts_[a], -tasks_[a].degree) < std::pair(starts_[b], -tasks_[b].degree);
    });
    for (const std::uint32_t task_idx : order) {
      const auto group = static_cast<std::int32_t>(result_.groups.size());
      result_.groups.push_back(strip.place(tasks_[task_idx], starts_[task_idx], group, gaps_));
      result_.groups.back().first_beside = tasks_[task_idx].first_beside;
    }
    ends_ = strip.ends();
  }

  void give_ranks() {
    free_.push_back({0, {input_.first_rank, input_.first_rank + input_.num_ranks}});
    using End = std::pair<std::int64_t, std::uint32_t>;  // (end, index into result_.groups)
    std::priority_queue<End, std::vector<End>, std::greater<>> running;
    for (const std::uint32_t task_idx : tasks_by_start()) {
      const GangTask& task = tasks_[task_idx];
      const std::int64_t start = starts_[task_idx];
      for (; !running.empty() && running.top().first <= start; running.pop())
        release(running.top().first, result_.groups[running.top().second].ranks);
      const auto group = static_cast<std::int32_t>(result_.groups.size());
      result_.groups.push_back({.sequence_idx = task.sequence_idx,
                                .start = start,
                                .ranks = take_free(task.degree, start, group),
                                .cut = {},
                                .first_beside = task.first_beside});
      running.emplace(start + task.duration, group);
    }
    for (; !running.empty(); running.pop())
      release(running.top().first, result_.groups[running.top().second].ranks);
    ends_.reserve(static_cast<std::size_t>(input_.num_ranks));
    for (const FreeInterval& interval : free_) {
      for (std::int32_t rank = interval.ranks.begin; rank < interval.ranks.end; ++rank)
        ends_.push_back({interval.since, rank});
    }
  }

  void fill_whole() {
    for (std::int32_t i = 0; i < input_.num_odd; ++i) ends_.push_back({0, input_.first_odd + i});
    std::stable_sort(gaps_.begin(), gaps_.end(),
                     [](const RankGap& a, const RankGap& b) { return a.length > b.length; });
    for (const RankGap& gap : gaps_) filler_.fill_gap(gap);
    filler_.level(std::move(ends_));
  }

  const StripInput& input_;
  std::int64_t goal_;
  StripSchedule& result_;
  bool has_places_;
  WholeFiller filler_;  // appends to result_
  std::vector<GangTask> tasks_;
  std::vector<std::int64_t> starts_;  // [tasks]
  std::vector<FreeInterval> free_;    // ascending since
  std::vector<RankGap> gaps_;
  std::vector<RankEnd> ends_;  // of all ranks, after the groups
};

}  // namespace

void sort_longest_first(std::vector<GangTask>& tasks) {
  std::stable_sort(tasks.begin(), tasks.end(),
                   [](const GangTask& a, const GangTask& b) { return a.duration > b.duration; });
}

std::vector<WholeRun> whole_runs(std::span<const SequenceSpec> sequences, std::size_t first) {
  std::vector<WholeRun> runs;
  for (std::size_t i = first; i < sequences.size(); ++i) {
    if (i == first || sequences[i].tokens != sequences[i - 1].tokens)
      runs.push_back({.first = static_cast<std::int32_t>(i), .count = 0});
    ++runs.back().count;
  }
  return runs;
}

void schedule_strip(const StripInput& input, const CostModel& cost, const ClusterSpec& cluster,
                    Tokens capacity, std::int64_t goal, StripSchedule& result) {
  result.groups.clear();
  result.packs.clear();
  result.beside.clear();
  result.runs.clear();
  result.makespan = 0;
  StripScheduler(input, cost, cluster, capacity, goal, result).run();
}

}  // namespace weft
