#include "plan/crowded_time.h"

#include <algorithm>
#include <array>
#include <limits>

namespace weft {
namespace {

constexpr std::int64_t kPlacementBudget = 150'000;

// Every partition into slots and every order of them, each slot at the earliest time at which it
// fits: the schedules in which no slot can start earlier alone, and one of them is optimal. An
// order counts only when its starts ascend: each such schedule has an order of that kind.
class CrowdSearch {
 public:
  CrowdSearch(std::span<const CrowdJob> jobs, const Crowd& crowd, std::int64_t& budget)
      : jobs_(jobs), crowd_(crowd), budget_(budget) {}

  // Infinite when the budget ran out.
  double run() {
    for (const CrowdJob& job : jobs_) left_area_ += area_of(job);
    place_next(0, 0);
    return budget_ > 0 ? best_ : std::numeric_limits<double>::infinity();
  }

 private:
  struct Slot {
    std::int64_t ranks = 0;
    double start = 0;
    double end = 0;
  };
  // Sequences chosen for the next slot.
  struct Chosen {
    std::int64_t tokens = 0;
    std::int64_t ranks_apart = 0;  // in slots of their own
    double ns = 0;
  };

  std::int64_t ranks_for(std::int64_t tokens) const {
    return (tokens + crowd_.capacity - 1) / crowd_.capacity;
  }
  // In tokens: what shares a slot may need fewer ranks than apart, never fewer tokens.
  static double area_of(const CrowdJob& job) { return static_cast<double>(job.tokens) * job.ns; }

  std::int64_t used_at(double time) const {
    std::int64_t used = 0;
    for (std::size_t i = 0; i < num_slots_; ++i) {
      if (slots_[i].start <= time && time < slots_[i].end) used += slots_[i].ranks;
    }
    return used;
  }

  // Starts ascend, so what runs at `start` only ends afterwards: a slot fits when it fits there.
  double earliest_start(std::int64_t ranks, double from) const {
    double start = from;
    while (used_at(start) + ranks > crowd_.num_ranks) {
      double next = std::numeric_limits<double>::infinity();
      for (std::size_t i = 0; i < num_slots_; ++i) {
        if (slots_[i].end > start) next = std::min(next, slots_[i].end);
      }
      start = next;
    }
    return start;
  }

  // With all that is left to do after `from` at the full width of the cluster.
  double least_end(double from) const {
    return from + left_area_ / (static_cast<double>(crowd_.num_ranks) *
                                static_cast<double>(crowd_.capacity));
  }

  void place_next(double from, double makespan) {
    if (num_left() == 0) {
      best_ = std::min(best_, makespan);
      return;
    }
    if (least_end(from) >= best_) return;
    for (std::size_t j = 0; j < jobs_.size(); ++j)
      if (!is_placed_[j]) choose(j, {}, from, makespan);
  }

  // Adds job j to the next slot, which is placed as it is and with every later job.
  void choose(std::size_t j, Chosen chosen, double from, double makespan) {
    if (best_ <= crowd_.enough || --budget_ <= 0) return;
    chosen.tokens += jobs_[j].tokens;
    chosen.ranks_apart += ranks_for(jobs_[j].tokens);
    chosen.ns = std::max(chosen.ns, jobs_[j].ns);
    const std::int64_t ranks = ranks_for(chosen.tokens);
    if (ranks > crowd_.num_ranks) return;
    is_placed_[j] = true;
    ++num_placed_;
    left_area_ -= area_of(jobs_[j]);
    // A slot of several is of use only where it needs fewer ranks than they do apart.
    const bool is_alone = chosen.tokens == jobs_[j].tokens;
    if (is_alone || ranks < chosen.ranks_apart) {
      const double start = earliest_start(ranks, from);
      const double end = start + chosen.ns;
      if (end < best_) {
        slots_[num_slots_++] = {ranks, start, end};
        place_next(start, std::max(makespan, end));
        --num_slots_;
      }
    }
    if (crowd_.capacity > 1) {
      for (std::size_t k = j + 1; k < jobs_.size(); ++k)
        if (!is_placed_[k]) choose(k, chosen, from, makespan);
    }
    left_area_ += area_of(jobs_[j]);
    --num_placed_;
    is_placed_[j] = false;
  }

  std::size_t num_left() const { return jobs_.size() - num_placed_; }

  std::span<const CrowdJob> jobs_;
  Crowd crowd_;
  std::int64_t& budget_;
  double best_ = std::numeric_limits<double>::infinity();
  double left_area_ = 0;
  std::array<Slot, kMostCrowdJobs> slots_{};
  std::size_t num_slots_ = 0;
  std::array<bool, kMostCrowdJobs> is_placed_{};
  std::size_t num_placed_ = 0;
};

}  // namespace

double crowded_time(std::span<const CrowdJob> jobs, const Crowd& crowd) {
  std::int64_t budget = kPlacementBudget;
  double known = 0;
  for (std::size_t m = 2; m <= std::min(jobs.size(), kMostCrowdJobs); ++m) {
    Crowd first = crowd;
    first.enough = std::max(crowd.enough, known);
    const double least = CrowdSearch(jobs.first(m), first, budget).run();
    if (budget <= 0) break;
    if (least > first.enough) known = least;
  }
  return known;
}

}  // namespace weft
