// Interleaved pipelines simulated without the engine: no queue and no events, everything is looked
// at again at every moment at which something ends. For tests that hold the engine against it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <ostream>
#include <tuple>
#include <utility>
#include <vector>

#include "cost/micro_batch_time.h"
#include "plan/ring_shares.h"
#include "plan/step_plan.h"

namespace weft {

// A pass as a test names it: slot, virtual stage, forward.
using PassName = std::tuple<std::int32_t, std::int32_t, bool>;
struct Span {
  std::int64_t start = 0;
  std::int64_t end = 0;
  friend bool operator==(const Span&, const Span&) = default;
};
inline std::ostream& operator<<(std::ostream& out, const Span& span) {
  return out << span.start << " to " << span.end;
}

// A micro-batch of a rank.
struct Micro {
  std::int32_t rank = 0;
  std::int64_t idx = 0;
};

// Repeats at every moment at which something ends: of all passes that may run, in the order of
// priority, each one whose devices no earlier one wants starts.
class Scan {
 public:
  Scan(const StepPlan& plan, const CostModel& cost, const ClusterSpec& cluster, std::int32_t chunks)
      : plan_(plan), p_(plan.pipeline_stages), chunks_(chunks) {
    members_.resize(static_cast<std::size_t>(plan.num_slots));
    layer_ns_.resize(members_.size());
    const RingShares rings(plan, cluster);
    std::vector<RingShare> shares;
    for (std::int32_t r = 0; r < plan.num_ranks; ++r) {
      const auto& list = plan.ranks[static_cast<std::size_t>(r)];
      for (std::size_t m = 0; m < list.size(); ++m) {
        const auto slot = static_cast<std::size_t>(list[m].slot_idx);
        members_[slot].push_back({r, static_cast<std::int64_t>(m)});
        rings.collect(list[m], shares);
        layer_ns_[slot] = std::max(layer_ns_[slot],
                                   layer_forward_time_ns(cost, shares, cluster.speed_of(Rank(r))));
      }
    }
    const std::int32_t layers = cost.num_layers / (p_ * chunks);
    for (const double ns : layer_ns_) {
      forward_.push_back(forward_time(cost, ns, layers).value());
      backward_.push_back(backward_time(cost, ns, layers).value());
    }
    set_levels();
  }

  std::map<PassName, Span> run() {
    std::vector<PassName> waiting;
    for (std::int32_t s = 0; s < plan_.num_slots; ++s) {
      for (std::int32_t v = 0; v < p_ * chunks_; ++v) {
        waiting.emplace_back(s, v, true);
        waiting.emplace_back(s, v, false);
      }
    }
    std::sort(waiting.begin(), waiting.end(), [&](const PassName& a, const PassName& b) {
      return std::tuple(key(a), a) < std::tuple(key(b), b);
    });
    for (now_ = 0; !waiting.empty();) {
      std::map<std::pair<std::int32_t, std::int32_t>, bool> wanted;
      for (auto it = waiting.begin(); it != waiting.end();) {
        if (may_run(*it) && take(*it, wanted)) {
          const auto slot = static_cast<std::size_t>(std::get<0>(*it));
          done_[*it] = {now_, now_ + (std::get<2>(*it) ? forward_ : backward_)[slot]};
          it = waiting.erase(it);
        } else {
          ++it;
        }
      }
      std::int64_t next = INT64_MAX;
      for (const auto& [name, span] : done_) {
        if (span.end > now_) next = std::min(next, span.end);
      }
      if (next == INT64_MAX && !waiting.empty()) {
        ADD_FAILURE() << waiting.size() << " passes wait for each other";
        break;
      }
      now_ = next;
    }
    return done_;
  }

 private:
  void set_levels() {
    levels_.assign(members_.size(), 0);
    for (bool is_changed = true; is_changed;) {
      is_changed = false;
      for (const auto& list : plan_.ranks) {
        for (std::size_t m = 1; m < list.size(); ++m) {
          const std::int64_t least = levels_[static_cast<std::size_t>(list[m - 1].slot_idx)] + 1;
          std::int64_t& level = levels_[static_cast<std::size_t>(list[m].slot_idx)];
          is_changed = is_changed || level < least;
          level = std::max(level, least);
        }
      }
    }
  }

  std::int64_t number(std::int64_t idx, std::int32_t chunk, bool is_forward) const {
    const std::int32_t turn = is_forward ? chunk : chunks_ - 1 - chunk;
    return (idx / p_ * chunks_ + turn) * p_ + idx % p_;
  }
  std::int64_t warm_up(std::int32_t device) const {
    return (p_ - device - 1) * 2 + (chunks_ - 1) * p_;
  }
  // Backward pass b comes right after forward pass b + warm-up.
  std::int64_t key(const PassName& name) const {
    const auto& [slot, v, is_forward] = name;
    const std::int64_t k = number(levels_[static_cast<std::size_t>(slot)], v / p_, is_forward);
    return is_forward ? 2 * k : 2 * (k + warm_up(v % p_)) + 1;
  }
  bool has_ended(const PassName& name) const {
    const auto it = done_.find(name);
    return it != done_.end() && it->second.end <= now_;
  }
  std::int32_t slot_at(std::int32_t rank, std::int64_t idx) const {
    return plan_.ranks[static_cast<std::size_t>(rank)][static_cast<std::size_t>(idx)].slot_idx;
  }

  bool may_run(const PassName& name) const {
    const auto& [slot, v, is_forward] = name;
    const std::int32_t last = p_ * chunks_ - 1;
    if (is_forward && v > 0 && !has_ended({slot, v - 1, true})) return false;
    if (!is_forward &&
        !has_ended(v < last ? PassName{slot, v + 1, false} : PassName{slot, v, true}))
      return false;
    for (const Micro& m : members_[static_cast<std::size_t>(slot)]) {
      if (m.idx > 0 && !has_ended({slot_at(m.rank, m.idx - 1), v, is_forward})) return false;
      if (is_forward && !has_room(m, v)) return false;
    }
    return true;
  }

  bool has_room(const Micro& m, std::int32_t v) const {
    const std::int32_t device = v % p_;
    const std::int64_t before = number(m.idx, v / p_, true) - warm_up(device) - 1;
    const auto count =
        static_cast<std::int64_t>(plan_.ranks[static_cast<std::size_t>(m.rank)].size());
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int32_t c = 0; c < chunks_; ++c) {
        if (number(i, c, false) <= before &&
            !has_ended({slot_at(m.rank, i), c * p_ + device, false}))
          return false;
      }
    }
    return true;
  }

  // A pass that may run keeps its devices from those after it, even if it cannot have all yet.
  bool take(const PassName& name,
            std::map<std::pair<std::int32_t, std::int32_t>, bool>& wanted) const {
    const std::int32_t device = std::get<1>(name) % p_;
    bool is_free = true;
    for (const Micro& m : members_[static_cast<std::size_t>(std::get<0>(name))]) {
      is_free = is_free && !wanted[{m.rank, device}] && !is_busy(m.rank, device);
      wanted[{m.rank, device}] = true;
    }
    return is_free;
  }

  bool is_busy(std::int32_t rank, std::int32_t device) const {
    for (const auto& [name, span] : done_) {
      if (std::get<1>(name) % p_ != device || span.end <= now_) continue;
      for (const Micro& m : members_[static_cast<std::size_t>(std::get<0>(name))]) {
        if (m.rank == rank) return true;
      }
    }
    return false;
  }

  const StepPlan& plan_;
  std::int32_t p_;
  std::int32_t chunks_;
  std::int64_t now_ = 0;
  std::vector<std::vector<Micro>> members_;  // [slots]
  std::vector<double> layer_ns_;
  std::vector<std::int64_t> forward_;
  std::vector<std::int64_t> backward_;
  std::vector<std::int64_t> levels_;
  std::map<PassName, Span> done_;
};

}  // namespace weft
