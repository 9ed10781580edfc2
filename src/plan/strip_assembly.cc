#include "plan/strip_assembly.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "base/parallel_parts.h"

namespace weft {
namespace {

// Into `sorted`: the items of `order` in ascending order of key(item), equal ones as they were. On
// entry first[k] is the place of the first with key k, on return of the first with key k + 1.
void order_by(const std::vector<std::uint32_t>& order, const auto& key,
              std::vector<std::uint32_t>& first, std::vector<std::uint32_t>& sorted) {
  sorted.resize(order.size());
  for (const std::uint32_t item : order) sorted[first[key(item)]++] = item;
}

// Counts of keys 0.. in counts[1..] -> places.
void to_places(std::vector<std::uint32_t>& counts) {
  std::partial_sum(counts.begin(), counts.end(), counts.begin());
}

// What one schedule becomes. Writes to its own ranks, groups and slots of the plan alone.
class StripPart {
 public:
  struct Place {
    std::int32_t first_slot = 0;
    std::int32_t first_group = 0;
  };

  StripPart(StepPlan& plan, Place place) : plan_(plan), place_(place) {}
  void write(const StripInput& input, const StripSchedule& schedule);

 private:
  // A rank's part in a group of the schedule.
  struct Member {
    std::uint32_t group = 0;     // into StripSchedule::groups
    std::uint32_t position = 0;  // in ring order
  };

  void number_slots(const StripInput& input, const StripSchedule& schedule);
  void add_groups(const StripInput& input, const StripSchedule& schedule);
  void add_pack(const StripSchedule& schedule, std::uint32_t pack_idx);
  void add_member(const StripSchedule& schedule, std::int32_t rank, Member member);
  static void add_whole(const StripSchedule& schedule, const StripPack& pack, MicroBatch& to);
  Group& group_of(std::size_t group) {
    return plan_.groups[static_cast<std::size_t>(place_.first_group) + group];
  }

  StepPlan& plan_;
  Place place_;
  std::vector<std::uint32_t> bucket_first_;  // [groups + 2]: packs by the group they precede
  std::vector<std::uint32_t> unordered_;     // [packs]
  std::vector<std::uint32_t> by_bucket_;     // [packs]
  std::vector<std::uint32_t> next_;
  std::vector<std::uint32_t> pack_order_;    // by rank, then by the group they precede
  std::vector<std::uint32_t> pack_first_;    // [ranks + 1] into pack_order_
  std::vector<std::int32_t> pack_slot_;      // [packs]
  std::vector<Member> members_;              // by rank, then by group
  std::vector<std::uint32_t> member_first_;  // [ranks + 1] into members_
  std::vector<ZigzagCut> cuts_;              // [groups]
};

void StripPart::write(const StripInput& input, const StripSchedule& schedule) {
  number_slots(input, schedule);
  add_groups(input, schedule);
  for (std::int32_t r = 0; r < input.num_all(); ++r) {
    const auto at = static_cast<std::size_t>(r);
    std::size_t pack = pack_first_[at];
    std::size_t member = member_first_[at];
    const std::size_t pack_end = pack_first_[at + 1];
    const std::size_t member_end = member_first_[at + 1];
    const std::int32_t rank = input.rank_at(r);
    plan_.ranks[static_cast<std::size_t>(rank)].reserve(pack_end - pack + member_end - member);
    while (pack < pack_end || member < member_end) {
      if (pack < pack_end &&
          (member == member_end || schedule.packs[pack_order_[pack]].before_group <=
                                       static_cast<std::int32_t>(members_[member].group))) {
        add_pack(schedule, pack_order_[pack++]);
      } else {
        add_member(schedule, rank, members_[member++]);
      }
    }
  }
}

void StripPart::number_slots(const StripInput& input, const StripSchedule& schedule) {
  const std::size_t num_groups = schedule.groups.size();
  const auto bucket = [&](std::uint32_t pack) {
    return std::min(static_cast<std::size_t>(schedule.packs[pack].before_group), num_groups);
  };
  const auto rank_of = [&](std::uint32_t pack) {
    return static_cast<std::size_t>(input.place_of(schedule.packs[pack].rank));
  };
  const auto num_packs = static_cast<std::uint32_t>(schedule.packs.size());
  bucket_first_.assign(num_groups + 2, 0);
  pack_first_.assign(static_cast<std::size_t>(input.num_all()) + 1, 0);
  for (std::uint32_t pack = 0; pack < num_packs; ++pack) {
    ++bucket_first_[bucket(pack) + 1];
    ++pack_first_[rank_of(pack) + 1];
  }
  to_places(bucket_first_);
  to_places(pack_first_);
  unordered_.resize(num_packs);
  std::iota(unordered_.begin(), unordered_.end(), 0);
  next_ = bucket_first_;
  order_by(unordered_, bucket, next_, by_bucket_);
  next_ = pack_first_;
  order_by(by_bucket_, rank_of, next_, pack_order_);
  // Before pack p of bucket b lie b groups.
  pack_slot_.resize(schedule.packs.size());
  for (const std::uint32_t pack : pack_order_) {
    const std::size_t b = bucket(pack);
    pack_slot_[pack] = place_.first_slot + static_cast<std::int32_t>(b + bucket_first_[b]++);
  }
  // Now bucket_first_[g] is the number of packs in the buckets up to g.
  for (std::size_t g = 0; g < num_groups; ++g) {
    group_of(g).sequence_idx = schedule.groups[g].sequence_idx;
    group_of(g).slot_idx = place_.first_slot + static_cast<std::int32_t>(g + bucket_first_[g]);
  }
}

void StripPart::add_groups(const StripInput& input, const StripSchedule& schedule) {
  member_first_.assign(static_cast<std::size_t>(input.num_all()) + 1, 0);
  cuts_.clear();
  for (std::size_t g = 0; g < schedule.groups.size(); ++g) {
    const StripGroup& placed = schedule.groups[g];
    Group& group = group_of(g);
    std::int32_t degree = 0;
    for (const RankInterval& interval : placed.ranks) degree += interval.end - interval.begin;
    group.ranks.reserve(static_cast<std::size_t>(degree));
    for (const RankInterval& interval : placed.ranks) {
      for (std::int32_t rank = interval.begin; rank < interval.end; ++rank) {
        group.ranks.emplace_back(rank);
        ++member_first_[static_cast<std::size_t>(rank - input.first_rank) + 1];
      }
    }
    cuts_.emplace_back(plan_.sequences[static_cast<std::size_t>(placed.sequence_idx)].tokens,
                       degree);
  }
  to_places(member_first_);
  next_ = member_first_;
  members_.resize(member_first_.back());
  for (std::size_t g = 0; g < schedule.groups.size(); ++g) {
    const Group& group = group_of(g);
    for (std::size_t i = 0; i < group.ranks.size(); ++i) {
      const auto rank = static_cast<std::size_t>(group.ranks[i].value() - input.first_rank);
      members_[next_[rank]++] = {static_cast<std::uint32_t>(g), static_cast<std::uint32_t>(i)};
    }
  }
}

void StripPart::add_pack(const StripSchedule& schedule, std::uint32_t pack_idx) {
  const StripPack& pack = schedule.packs[pack_idx];
  MicroBatch& micro_batch = plan_.ranks[static_cast<std::size_t>(pack.rank)].emplace_back();
  micro_batch.slot_idx = pack_slot_[pack_idx];
  micro_batch.pieces.reserve(static_cast<std::size_t>(pack.num_sequences));
  add_whole(schedule, pack, micro_batch);
}

void StripPart::add_whole(const StripSchedule& schedule, const StripPack& pack, MicroBatch& to) {
  for (std::int32_t at = pack.first; at >= 0;) {
    const PackRun& run = schedule.runs[static_cast<std::size_t>(at)];
    for (std::int32_t i = 0; i < run.sequences.count; ++i) {
      to.pieces.push_back({.sequence_idx = run.sequences.first + i,
                           .group_idx = kNoGroup,
                           .range = {0, run.tokens.value()}});
    }
    at = run.next;
  }
}

void StripPart::add_member(const StripSchedule& schedule, std::int32_t rank, Member member) {
  const std::int32_t group_idx = place_.first_group + static_cast<std::int32_t>(member.group);
  const Group& group = group_of(member.group);
  MicroBatch& micro_batch = plan_.ranks[static_cast<std::size_t>(rank)].emplace_back();
  micro_batch.slot_idx = group.slot_idx;
  const StripGroup& placed = schedule.groups[member.group];
  micro_batch.pieces.reserve(2);
  const auto ranges = placed.cut.empty()
                          ? cuts_[member.group].ranges(static_cast<std::int32_t>(member.position))
                          : placed.cut[member.position];
  for (const TokenRange range : ranges) {
    if (range.empty()) continue;
    micro_batch.pieces.push_back(
        {.sequence_idx = group.sequence_idx, .group_idx = group_idx, .range = range});
  }
  if (placed.first_beside < 0) return;
  const auto beside = static_cast<std::size_t>(placed.first_beside) + member.position;
  add_whole(schedule, schedule.beside[beside], micro_batch);
}

}  // namespace

StripAssembly::StripAssembly(StepPlan& plan) : plan_(plan) {
  plan_.ranks.resize(static_cast<std::size_t>(plan_.num_ranks));
}

void StripAssembly::append(const StripInput& input, const StripSchedule& schedule) {
  append({&input, 1}, {&schedule, 1}, 1);
}

void StripAssembly::append(std::span<const StripInput> inputs,
                           std::span<const StripSchedule> schedules, int num_threads) {
  std::vector<StripPart::Place> places;
  std::size_t num_groups = plan_.groups.size();
  for (const StripSchedule& schedule : schedules) {
    places.push_back(
        {.first_slot = plan_.num_slots, .first_group = static_cast<std::int32_t>(num_groups)});
    num_groups += schedule.groups.size();
    plan_.num_slots += static_cast<std::int32_t>(schedule.groups.size() + schedule.packs.size());
  }
  plan_.groups.resize(num_groups);
  for_each_part(num_threads, inputs.size(),
                [&](std::size_t i) { StripPart(plan_, places[i]).write(inputs[i], schedules[i]); });
}

}  // namespace weft
