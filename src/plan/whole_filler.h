// WholeFiller: puts whole sequences beside the members of groups, into gaps in front of groups,
// then on all ranks up to one level of time. Those of a gap or behind the last group are
// micro-batches of their own, of at most what the rank holds.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/strip_schedule.h"
#include "plan/whole_pool.h"

namespace weft {

// A rank waits `length` ns for group `before_group`.
struct RankGap {
  std::int64_t length = 0;
  std::int32_t rank = 0;
  std::int32_t before_group = 0;
};

struct RankEnd {
  std::int64_t end = 0;  // of the rank's last group
  std::int32_t rank = 0;
};

class WholeFiller {
 public:
  // Appends packs to `result` and raises its makespan.
  WholeFiller(const StripInput& input, const CostModel& cost, const ClusterSpec& cluster,
              Tokens capacity, StripSchedule& result);

  // Time that what is left takes at speed 1, with its fixed costs in full micro-batches.
  double left_area() const;
  void fill_gap(const RankGap& gap);
  // Whether a micro-batch less is worth the unevenness of what lies beside a group.
  bool fixed_cost_is_large() const;
  // Puts whole sequences beside the members of a group, as much on each, for at most `ns`, and
  // names them in the task. Returns by how many ns they make the group longer. REQUIRES: ranks that
  // are all alike.
  std::int64_t fill_beside(GangTask& task, std::int64_t ns);
  // Places all that is left after the groups. `ends`: every rank once, in any order.
  void level(std::vector<RankEnd> ends);

 private:
  struct Fill {
    std::int64_t left_ns = 0;  // of the time given, at speed 1
    std::int32_t pack = -1;    // the last one opened
  };

  // Fills `pack` first, when there is one (-1: none).
  Fill fill(std::int32_t rank, std::int32_t before_group, std::int64_t ns, std::int32_t pack);
  // Fills the ranks up to the level to which `area` would rise over them, less the margin.
  void raise(double area, std::int64_t margin, std::vector<RankEnd>& ends,
             std::vector<std::int32_t>& packs);
  void deal_out(std::vector<RankEnd> ends, std::vector<std::int32_t> packs);
  // Returns the longest, of at most `ns`.
  std::int64_t fill_alike(std::span<StripPack> packs, std::int64_t ns);
  std::int32_t open_pack(std::int32_t rank, std::int32_t before_group);
  StripPack& pack_at(std::int32_t pack) const {
    return result_.packs[static_cast<std::size_t>(pack)];
  }
  void put(StripPack& into, std::size_t length, std::int32_t count);
  std::int64_t water_level(double area, const std::vector<RankEnd>& ends) const;
  double speed_of(std::int32_t rank) const;
  Tokens capacity_of(std::int32_t rank) const;

  const StripInput& input_;
  const ClusterSpec& cluster_;
  Tokens capacity_;
  double fixed_share_;  // of a micro-batch, against the work of a full one
  WholePool pool_;
  Tokens beside_limit_;  // the tokens that stay for gaps and ends
  StripSchedule& result_;
};

}  // namespace weft
