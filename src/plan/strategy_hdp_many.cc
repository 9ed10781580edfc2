// Strategy "hdp" for ranks that are all alike and steps of many sequences: every sequence above the
// capacity on the fewest ranks that hold it, everything else whole.
#include <algorithm>
#include <limits>
#include <vector>

#include "plan/islands.h"
#include "plan/sequence_time.h"
#include "plan/strategy.h"

namespace weft {
namespace {

// The search for an order stops when the makespan is this near to the bound.
constexpr double kNearEnough = 1.002;

std::vector<GangTask> tasks_of(const PlanRequest& request, const StepPlan& plan) {
  std::vector<GangTask> tasks;
  for (std::size_t i = 0; i < plan.sequences.size() && plan.sequences[i].tokens > plan.capacity;
       ++i) {
    const Tokens tokens = plan.sequences[i].tokens;
    const std::int32_t degree = smallest_degree(tokens, plan.capacity);
    tasks.push_back({.sequence_idx = static_cast<std::int32_t>(i),
                     .degree = degree,
                     .duration = sequence_time(request.cost, tokens, degree, 1.0).value()});
  }
  std::stable_sort(tasks.begin(), tasks.end(), [](const GangTask& a, const GangTask& b) {
    return a.duration > b.duration;
  });
  return tasks;
}

// Appends schedules of disjoint ranks to a plan. A group and a pack have a slot each; groups ascend
// in order of start on every rank, so no cycle can arise.
class PlanAssembly {
 public:
  explicit PlanAssembly(StepPlan& plan) : plan_(plan) {
    plan_.ranks.resize(static_cast<std::size_t>(plan_.num_ranks));
  }

  void append(const StripInput& input, const StripSchedule& schedule) {
    reserve(input, schedule);
    // Packs by the group they precede; those of one rank before one group keep their order.
    const std::size_t num_groups = schedule.groups.size();
    std::vector<std::uint32_t> first(num_groups + 2);
    const auto bucket = [&](const StripPack& pack) {
      return std::min(static_cast<std::size_t>(pack.before_group), num_groups);
    };
    for (const StripPack& pack : schedule.packs) ++first[bucket(pack) + 1];
    for (std::size_t b = 0; b <= num_groups; ++b) first[b + 1] += first[b];
    std::vector<std::uint32_t> order(schedule.packs.size());
    std::vector<std::uint32_t> next(first.begin(), first.end() - 1);
    for (std::size_t p = 0; p < schedule.packs.size(); ++p)
      order[next[bucket(schedule.packs[p])]++] = static_cast<std::uint32_t>(p);

    for (std::size_t g = 0; g <= num_groups; ++g) {
      for (std::size_t p = first[g]; p < first[g + 1]; ++p)
        add_pack(input, schedule, schedule.packs[order[p]]);
      if (g < num_groups) add_group(schedule.groups[g]);
    }
  }

 private:
  MicroBatch& open(std::int32_t rank) {
    auto& list = plan_.ranks[static_cast<std::size_t>(rank)];
    return list.emplace_back(MicroBatch{.slot_idx = plan_.num_slots, .offload_ratio = 0, .pieces = {}});
  }

  void reserve(const StripInput& input, const StripSchedule& schedule) {
    std::vector<std::uint32_t> count(static_cast<std::size_t>(input.num_ranks));
    const auto add = [&](std::int32_t rank) {
      ++count[static_cast<std::size_t>(rank - input.first_rank)];
    };
    for (const StripPack& pack : schedule.packs) add(pack.rank);
    for (const StripGroup& group : schedule.groups) {
      for (const RankInterval& interval : group.ranks) {
        for (std::int32_t rank = interval.begin; rank < interval.end; ++rank) add(rank);
      }
    }
    for (std::size_t r = 0; r < count.size(); ++r)
      plan_.ranks[static_cast<std::size_t>(input.first_rank) + r].reserve(count[r]);
  }

  void add_pack(const StripInput& input, const StripSchedule& schedule, const StripPack& pack) {
    MicroBatch& micro_batch = open(pack.rank);
    micro_batch.pieces.reserve(static_cast<std::size_t>(pack.num_sequences));
    for (std::int32_t at = pack.first; at >= 0; at = schedule.next[static_cast<std::size_t>(at)]) {
      const std::int32_t idx = input.whole[static_cast<std::size_t>(at)];
      const Tokens tokens = plan_.sequences[static_cast<std::size_t>(idx)].tokens;
      micro_batch.pieces.push_back(
          {.sequence_idx = idx, .group_idx = kNoGroup, .range = {0, tokens.value()}});
    }
    ++plan_.num_slots;
  }

  void add_group(const StripGroup& placed) {
    const auto group_idx = static_cast<std::int32_t>(plan_.groups.size());
    Group& group = plan_.groups.emplace_back(
        Group{.sequence_idx = placed.sequence_idx, .slot_idx = plan_.num_slots, .ranks = {}});
    std::int32_t degree = 0;
    for (const RankInterval& interval : placed.ranks) degree += interval.end - interval.begin;
    group.ranks.reserve(static_cast<std::size_t>(degree));
    const ZigzagCut cut(plan_.sequences[static_cast<std::size_t>(placed.sequence_idx)].tokens,
                        degree);
    for (const RankInterval& interval : placed.ranks) {
      for (std::int32_t rank = interval.begin; rank < interval.end; ++rank) {
        const auto ranges = cut.ranges(static_cast<std::int32_t>(group.ranks.size()));
        group.ranks.emplace_back(rank);
        MicroBatch& micro_batch = open(rank);
        micro_batch.pieces.reserve(2);
        for (const TokenRange range : ranges) {
          if (range.empty()) continue;
          micro_batch.pieces.push_back({.sequence_idx = placed.sequence_idx,
                                        .group_idx = group_idx,
                                        .range = range});
        }
      }
    }
    ++plan_.num_slots;
  }

  StepPlan& plan_;
};

}  // namespace

void plan_hdp_many(const PlanRequest& request, StepPlan& plan) {
  std::vector<GangTask> tasks = tasks_of(request, plan);
  const std::size_t first_whole = tasks.size();
  const auto goal =
      static_cast<std::int64_t>(static_cast<double>(plan.lower_bound.value()) * kNearEnough);
  PlanAssembly assembly(plan);
  for (const StripInput& island : deal_to_islands(request, plan, std::move(tasks), first_whole))
    assembly.append(island, schedule_strip(island, request.cost, plan.capacity, goal));
}

}  // namespace weft
