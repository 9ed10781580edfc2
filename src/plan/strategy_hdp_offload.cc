// Strategy "hdp" with offload: sequences above the capacity on fewer ranks than hold them, as far
// as their copies hide, where the step leaves time for the longer micro-batches. Competes with the
// plan without offload; of equal makespans the one that exchanges less is taken.
#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "plan/evaluate.h"
#include "plan/hdp_search.h"
#include "plan/islands.h"
#include "plan/offload.h"
#include "plan/sequence_time.h"
#include "plan/strategy.h"
#include "plan/strip_assembly.h"

namespace weft {
namespace {

constexpr double kNearEnough = 1.002;
// A sequence alone may take so many percent of the bound.
constexpr std::array<std::int64_t, 6> kPercentOfBound{100, 70, 50, 35, 20, 10};

class OffloadSearch {
 public:
  OffloadSearch(const PlanRequest& request, const StepPlan& header)
      : request_(request), header_(header), costs_(request.cost, request.cluster) {}

  StepPlan run() {
    const Tokens longest = header_.sequences.front().tokens;
    const std::int32_t least = least_degree_with_offload(request_.cost, longest, header_.capacity);
    WEFT_USER_CHECK(least <= header_.num_ranks,
                    "plan: the longest sequence, {} tokens, needs {} ranks of {} tokens, with the "
                    "offload that its compute hides; there are {}",
                    longest, least, header_.capacity, header_.num_ranks);
    if (ranks_needed(longest, header_.capacity) <= header_.num_ranks) {
      PlanRequest without = request_;
      without.options.offload = false;
      StepPlan plan = header_;
      plan_hdp(without, plan);
      add(std::move(plan));
    }
    std::vector<std::int32_t> previous;
    for (const std::int64_t percent : kPercentOfBound) {
      const std::vector<std::int32_t> degrees = degrees_within(header_.lower_bound / 100 * percent);
      if (degrees == previous) continue;
      add(schedule(degrees));
      previous = degrees;
    }
    return choose();
  }

 private:
  struct Candidate {
    StepPlan plan;
    Evaluation evaluation;
  };

  void add(StepPlan plan) {
    Evaluation evaluation = evaluate(plan, request_.cost, request_.cluster);
    candidates_.push_back({std::move(plan), std::move(evaluation)});
  }

  StepPlan choose() {
    Nanoseconds best = candidates_.front().evaluation.makespan;
    for (const Candidate& candidate : candidates_)
      best = std::min(best, candidate.evaluation.makespan);
    const Nanoseconds limit = equal_makespan(best);
    const auto key = [&](const Candidate& candidate) {
      const Evaluation& evaluation = candidate.evaluation;
      return std::tuple(evaluation.makespan > limit, evaluation.exchange_tokens,
                        evaluation.offloaded_micro_batches, evaluation.makespan);
    };
    return std::move(
        std::min_element(candidates_.begin(), candidates_.end(),
                         [&](const Candidate& a, const Candidate& b) { return key(a) < key(b); })
            ->plan);
  }

  // Of the sequences above the capacity: the least degrees with which each alone ends within the
  // limit, else the fastest up to the ranks that hold it without offload.
  std::vector<std::int32_t> degrees_within(Nanoseconds limit) const {
    std::vector<std::int32_t> degrees;
    const auto at_speed = Nanoseconds(static_cast<std::int64_t>(
        static_cast<double>(limit.value()) * request_.cluster.speed_of(Rank(0))));
    for (const SequenceSpec& sequence : header_.sequences) {
      if (sequence.tokens <= header_.capacity) break;
      const std::int32_t least =
          least_degree_with_offload(request_.cost, sequence.tokens, header_.capacity);
      const auto most = static_cast<std::int32_t>(std::min<std::int64_t>(
          header_.num_ranks, ranks_needed(sequence.tokens, header_.capacity)));
      degrees.push_back(degree_within(costs_, sequence.tokens, least, most, at_speed));
    }
    return degrees;
  }

  StepPlan schedule(const std::vector<std::int32_t>& degrees) const {
    std::vector<GangTask> tasks;
    const double speed = request_.cluster.speed_of(Rank(0));
    for (std::size_t i = 0; i < degrees.size(); ++i) {
      const Tokens tokens = header_.sequences[i].tokens;
      tasks.push_back(
          {.sequence_idx = static_cast<std::int32_t>(i),
           .degree = degrees[i],
           .duration = sequence_time(costs_, tokens, degrees[i], speed).value(),
           .between = sequence_time(costs_.between(), tokens, degrees[i], speed).value()});
    }
    sort_longest_first(tasks);
    const auto goal =
        static_cast<std::int64_t>(static_cast<double>(header_.lower_bound.value()) * kNearEnough);
    StepPlan plan = header_;
    StripAssembly assembly(plan);
    StripSchedule schedule;
    for (const StripInput& island :
         deal_to_islands(request_, header_, tasks, tasks.size(), header_.num_ranks)) {
      schedule_strip(island, request_.cost, request_.cluster, header_.capacity, goal, schedule);
      assembly.append(island, schedule);
    }
    dissolve_lone_groups(plan);
    set_offload_ratios(plan);
    return plan;
  }

  // A sequence that one rank holds now is whole, not a group of one.
  static void dissolve_lone_groups(StepPlan& plan) {
    std::vector<std::int32_t> kept(plan.groups.size(), kNoGroup);
    std::vector<Group> groups;
    for (std::size_t g = 0; g < plan.groups.size(); ++g) {
      if (plan.groups[g].ranks.size() == 1) continue;
      kept[g] = static_cast<std::int32_t>(groups.size());
      groups.push_back(std::move(plan.groups[g]));
    }
    plan.groups = std::move(groups);
    for (auto& micro_batches : plan.ranks) {
      for (MicroBatch& micro_batch : micro_batches) {
        for (Piece& piece : micro_batch.pieces) {
          if (piece.group_idx != kNoGroup)
            piece.group_idx = kept[static_cast<std::size_t>(piece.group_idx)];
        }
      }
    }
  }

  const PlanRequest& request_;
  const StepPlan& header_;
  GroupCosts costs_;
  std::vector<Candidate> candidates_;
};

}  // namespace

void plan_hdp_offload(const PlanRequest& request, StepPlan& plan) {
  if (plan.sequences.empty()) {
    plan.ranks.resize(static_cast<std::size_t>(plan.num_ranks));
    return;
  }
  const StepPlan header = plan;
  plan = OffloadSearch(request, header).run();
}

}  // namespace weft
