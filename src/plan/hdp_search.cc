#include "plan/hdp_search.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "plan/sequence_time.h"

namespace weft {
namespace {

// The search stops when the makespan is this near to the bound.
constexpr double kNearEnough = 1.003;
constexpr std::int64_t kScheduleBudget = 120'000;  // full schedules, counted in sequences + ranks
constexpr std::uint64_t kNumDegreeChoices = 7;     // and a node's ranks, where places matter
constexpr std::size_t kMostSharedByAll = 64;
constexpr double kEqualMakespans = 1.004;
constexpr Nanoseconds kNoLimit(std::numeric_limits<std::int64_t>::max());

using Requests = std::vector<GroupRequest>;
using Degrees = std::vector<std::int32_t>;

class HdpSearch {
 public:
  HdpSearch(const PlanRequest& request, const StepPlan& plan)
      : sequences_(plan.sequences),
        costs_(request.cost, request.cluster),
        capacity_(request.options.capacity),
        num_ranks_(request.cluster.num_ranks),
        scheduler_(plan.sequences, request.cost, request.cluster, request.options.capacity),
        bound_(plan.lower_bound),
        schedule_cost_(static_cast<std::int64_t>(plan.sequences.size()) +
                       request.cluster.num_ranks) {
    for (const SequenceSpec& sequence : sequences_)
      smallest_.push_back(smallest_degree(sequence.tokens, capacity_));
  }

  GangSchedule run(Nanoseconds rival) {
    try_orders(smallest_);
    GangSchedule least_exchange = *best_;
    search_limits();
    refine_by_schedule();
    if (best_->makespan > equal_makespan(bound_)) share_longest(num_ranks_);
    if (costs_.has_places() && best_->makespan > equal_makespan(bound_))
      share_longest(costs_.node_ranks());
    const Nanoseconds limit = equal_makespan(std::min(best_->makespan, rival));
    if (least_exchange.makespan <= limit) return least_exchange;
    exchange_less(limit);
    return std::move(*best_);
  }

 private:
  bool near_enough(Nanoseconds makespan) const {
    return static_cast<double>(makespan.value()) <=
           kNearEnough * static_cast<double>(bound_.value());
  }
  bool can_schedule() const { return !best_ || scheduled_ + schedule_cost_ <= kScheduleBudget; }
  std::int32_t most_ranks(std::size_t i) const {
    return static_cast<std::int32_t>(
        std::min<std::int64_t>(num_ranks_, sequences_[i].tokens.value()));
  }

  // Runs the requests; keeps them when they are better.
  bool try_requests(const Requests& requests) {
    return try_within(requests, best_ ? best_->makespan - Nanoseconds(1) : kNoLimit);
  }

  // Runs the requests; keeps them when they end within the limit.
  bool try_within(const Requests& requests, Nanoseconds limit) {
    if (!can_schedule()) return false;
    scheduled_ += schedule_cost_;
    GangSchedule schedule = scheduler_.run(requests);
    if (schedule.makespan > limit) return false;
    best_ = std::move(schedule);
    requests_ = requests;
    return true;
  }

  void try_orders(const Degrees& degrees) {
    struct Keyed {
      std::int64_t time = 0;
      GroupRequest request;
    };
    std::vector<Keyed> groups;
    for (std::size_t i = 0; i < degrees.size(); ++i) {
      if (degrees[i] == 1) continue;
      groups.push_back({sequence_time(costs_, sequences_[i].tokens, degrees[i], 1.0).value(),
                        {.sequence_idx = static_cast<std::int32_t>(i), .degree = degrees[i]}});
    }
    const auto try_by = [&](auto key) {
      if (best_ && near_enough(best_->makespan)) return;
      std::stable_sort(groups.begin(), groups.end(),
                       [&](const Keyed& a, const Keyed& b) { return key(a) > key(b); });
      Requests requests;
      for (const Keyed& group : groups) requests.push_back(group.request);
      try_requests(requests);
    };
    try_by([](const Keyed& group) { return group.time; });
    try_by([](const Keyed& group) { return group.time * group.request.degree; });
    try_by([](const Keyed& group) { return std::pair(group.request.degree, group.time); });
  }

  // The smallest degrees with which every sequence alone would finish within T, for T from the
  // bound upwards.
  void search_limits() {
    constexpr std::array<int, 10> kPercent{100, 103, 107, 112, 120, 135, 150, 175, 200, 300};
    Degrees previous = smallest_;
    for (const int percent : kPercent) {
      if (near_enough(best_->makespan) || !can_schedule()) return;
      const Nanoseconds limit(bound_.value() / 100 * percent);
      Degrees degrees(sequences_.size());
      std::int32_t least = 1;
      for (std::size_t i = sequences_.size(); i-- > 0;) {  // shortest first: degrees only grow
        const std::int32_t most = most_ranks(i);
        least = std::min(most, std::max(least, smallest_[i]));
        degrees[i] = degree_within(costs_, sequences_[i].tokens, least, most, limit);
        least = degrees[i];
      }
      if (degrees == previous) continue;
      try_orders(degrees);
      previous = std::move(degrees);
    }
  }

  // The k longest sequences on all ranks, one after the other, which leaves no gaps, and the rest
  // as whole as it can be. With few sequences the long ones are too coarse for anything else. Where
  // hops inside a node are cheaper, the same with all ranks of a node.
  void share_longest(std::int32_t num_ranks) {
    const std::size_t most = std::min(sequences_.size(), kMostSharedByAll);
    Degrees degrees = smallest_;
    for (std::size_t i = 0; i < most && !near_enough(best_->makespan); ++i) {
      degrees[i] = std::max(smallest_[i], std::min(num_ranks, most_ranks(i)));
      Requests requests;
      for (std::size_t j = 0; j < degrees.size() && degrees[j] > 1; ++j)
        requests.push_back({.sequence_idx = static_cast<std::int32_t>(j), .degree = degrees[j]});
      try_requests(requests);
    }
  }

  std::uint64_t num_degree_choices() const {
    return kNumDegreeChoices + (costs_.has_places() ? 1 : 0);
  }

  // A degree near `degree`, chosen by `choice`; nullopt when this sequence may not have it.
  std::optional<std::int32_t> changed_degree(std::int32_t sequence_idx, std::int32_t degree,
                                             std::uint64_t choice) const {
    const auto i = static_cast<std::size_t>(sequence_idx);
    const std::array<std::int32_t, kNumDegreeChoices + 1> near{
        degree + 1, degree - 1,   degree + (degree + 3) / 4, degree + (degree + 1) / 2, 2 * degree,
        num_ranks_, smallest_[i], costs_.node_ranks()};
    const std::int32_t changed = near[choice];
    if (changed < std::max(2, smallest_[i]) || changed > most_ranks(i) || changed == degree)
      return std::nullopt;
    return changed;
  }

  // Sequences that the rank which ends last runs, longest first.
  std::vector<std::int32_t> critical_sequences() const {
    const auto last = std::max_element(best_->ends.begin(), best_->ends.end());
    const Rank rank(last - best_->ends.begin());
    std::vector<std::int32_t> found;
    for (const PlacedGroup& group : best_->groups) {
      if (std::find(group.ranks.begin(), group.ranks.end(), rank) != group.ranks.end()) {
        found.push_back(group.sequence_idx);
      }
    }
    for (const PlacedPack& pack : best_->packs) {
      if (pack.rank == rank)
        found.insert(found.end(), pack.sequences.begin(), pack.sequences.end());
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  // The requests with this sequence's degree changed; 1 removes it, a new one goes in by length.
  Requests with_degree(std::int32_t sequence_idx, std::int32_t degree) const {
    Requests requests = requests_;
    const auto at = std::find_if(
        requests.begin(), requests.end(),
        [&](const GroupRequest& request) { return request.sequence_idx == sequence_idx; });
    if (at != requests.end()) {
      at->degree = degree;
      if (degree == 1) requests.erase(at);
    } else {
      const auto place = std::find_if(
          requests.begin(), requests.end(),
          [&](const GroupRequest& request) { return request.sequence_idx > sequence_idx; });
      requests.insert(place, {.sequence_idx = sequence_idx, .degree = degree});
    }
    return requests;
  }

  std::int32_t degree_of(std::int32_t sequence_idx) const {
    for (const GroupRequest& request : requests_) {
      if (request.sequence_idx == sequence_idx) return request.degree;
    }
    return 1;
  }

  bool improve_once() {
    for (const std::int32_t sequence_idx : critical_sequences()) {
      const std::int32_t degree = degree_of(sequence_idx);
      for (std::uint64_t choice = 0; choice < num_degree_choices(); ++choice) {
        const auto changed = changed_degree(sequence_idx, degree, choice);
        if (changed && try_requests(with_degree(sequence_idx, *changed))) return true;
        if (!can_schedule()) return false;
      }
    }
    return false;
  }

  // Spreads sequences of the last rank over more ranks while that shortens the step.
  void refine_by_schedule() {
    while (!near_enough(best_->makespan) && improve_once()) {
    }
  }

  Tokens exchange_above_least(const GroupRequest& request) const {
    const auto i = static_cast<std::size_t>(request.sequence_idx);
    return sequences_[i].tokens * (request.degree - smallest_[i]);
  }

  // Every sequence that fits on one rank whole again, then one degree after the other smaller, the
  // most exchange first, as long as the makespan stays within the limit.
  void exchange_less(Nanoseconds limit) {
    scheduled_ = 0;
    if (best_->makespan > limit) return;
    Requests shared = requests_;
    std::erase_if(shared, [&](const GroupRequest& request) {
      return smallest_[static_cast<std::size_t>(request.sequence_idx)] == 1;
    });
    if (shared.size() < requests_.size()) try_within(shared, limit);
    while (exchange_less_once(limit)) {
    }
  }

  bool exchange_less_once(Nanoseconds limit) {
    Requests order = requests_;
    std::stable_sort(order.begin(), order.end(),
                     [&](const GroupRequest& left, const GroupRequest& right) {
                       return exchange_above_least(left) > exchange_above_least(right);
                     });
    bool changed = false;
    for (const auto& [sequence_idx, degree] : order) {
      const std::int32_t least = smallest_[static_cast<std::size_t>(sequence_idx)];
      for (std::int32_t smaller = least; smaller < degree; smaller += (degree - smaller + 1) / 2) {
        if (!can_schedule()) return false;
        if (!try_within(with_degree(sequence_idx, smaller), limit)) continue;
        changed = true;
        break;
      }
    }
    return changed;
  }

  std::span<const SequenceSpec> sequences_;
  GroupCosts costs_;
  Tokens capacity_;
  std::int32_t num_ranks_;
  GangScheduler scheduler_;
  Nanoseconds bound_;
  std::int64_t schedule_cost_;
  std::int64_t scheduled_ = 0;  // spent of kScheduleBudget
  Degrees smallest_;
  Requests requests_;  // of best_
  std::optional<GangSchedule> best_;
};

}  // namespace

Nanoseconds equal_makespan(Nanoseconds best) {
  return Nanoseconds(
      static_cast<std::int64_t>(static_cast<double>(best.value()) * kEqualMakespans));
}

GangSchedule search_gang_schedule(const PlanRequest& request, const StepPlan& plan,
                                  Nanoseconds rival) {
  return HdpSearch(request, plan).run(rival);
}

}  // namespace weft
