#include "plan/crowded_time.h"

#include <algorithm>
#include <array>
#include <limits>

namespace weft {
namespace {

constexpr std::int64_t kPlacementBudget = 40'000;

// Every order of the jobs, each job at the earliest time at which it fits: the schedules in which
// no job can start earlier alone, and one of them is optimal. An order counts only when its starts
// ascend: each such schedule has an order of that kind.
class CrowdSearch {
 public:
  CrowdSearch(std::span<const CrowdJob> jobs, std::int64_t all_tokens, double enough,
              std::int64_t& budget)
      : jobs_(jobs), all_tokens_(all_tokens), enough_(enough), budget_(budget) {}

  // Infinite when the budget ran out.
  double run() {
    for (const CrowdJob& job : jobs_) left_area_ += area_of(job);
    place_next(0, 0);
    return budget_ > 0 ? best_ : std::numeric_limits<double>::infinity();
  }

 private:
  struct Placed {
    std::size_t job = 0;
    double start = 0;
    double end = 0;
  };

  static double area_of(const CrowdJob& job) { return static_cast<double>(job.tokens) * job.ns; }

  std::int64_t used_at(double time) const {
    std::int64_t used = 0;
    for (std::size_t i = 0; i < num_placed_; ++i) {
      if (placed_[i].start <= time && time < placed_[i].end) used += jobs_[placed_[i].job].tokens;
    }
    return used;
  }

  // Starts ascend, so what runs at `start` only ends afterwards: the job fits when it fits there.
  double earliest_start(const CrowdJob& job, double from) const {
    double start = from;
    while (used_at(start) + job.tokens > all_tokens_) {
      double next = std::numeric_limits<double>::infinity();
      for (std::size_t i = 0; i < num_placed_; ++i) {
        if (placed_[i].end > start) next = std::min(next, placed_[i].end);
      }
      start = next;
    }
    return start;
  }

  // Work that is still to be done after `from`, at the full width of the cluster.
  double least_end(double from) const {
    double area = left_area_;
    for (std::size_t i = 0; i < num_placed_; ++i) {
      if (placed_[i].end > from)
        area += static_cast<double>(jobs_[placed_[i].job].tokens) * (placed_[i].end - from);
    }
    return from + area / static_cast<double>(all_tokens_);
  }

  void place_next(double from, double makespan) {
    if (num_placed_ == jobs_.size()) {
      best_ = std::min(best_, makespan);
      return;
    }
    if (least_end(from) >= best_) return;
    for (std::size_t j = 0; j < jobs_.size() && best_ > enough_; ++j) {
      if (is_placed_[j]) continue;
      if (--budget_ <= 0) return;
      const double start = earliest_start(jobs_[j], from);
      const double end = start + jobs_[j].ns;
      if (end >= best_) continue;
      placed_[num_placed_++] = {j, start, end};
      is_placed_[j] = true;
      left_area_ -= area_of(jobs_[j]);
      place_next(start, std::max(makespan, end));
      left_area_ += area_of(jobs_[j]);
      is_placed_[j] = false;
      --num_placed_;
    }
  }

  std::span<const CrowdJob> jobs_;
  std::int64_t all_tokens_;
  double enough_;
  std::int64_t& budget_;
  double best_ = std::numeric_limits<double>::infinity();
  double left_area_ = 0;
  std::array<Placed, kMostCrowdJobs> placed_{};
  std::array<bool, kMostCrowdJobs> is_placed_{};
  std::size_t num_placed_ = 0;
};

}  // namespace

double crowded_time(std::span<const CrowdJob> jobs, std::int64_t all_tokens, double enough) {
  std::int64_t budget = kPlacementBudget;
  double known = 0;
  for (std::size_t m = 2; m <= std::min(jobs.size(), kMostCrowdJobs); ++m) {
    const double least =
        CrowdSearch(jobs.first(m), all_tokens, std::max(enough, known), budget).run();
    if (budget <= 0) break;
    if (least > std::max(enough, known)) known = least;
  }
  return known;
}

}  // namespace weft
