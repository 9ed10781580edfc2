#include "plan/strip_assembly.h"

#include <algorithm>

namespace weft {
namespace {

// A cut in which member i holds tokens[i]: like the zigzag, part of it from the front and as much
// from the back, so that work goes with tokens.
class UnequalZigzag {
 public:
  UnequalZigzag(Tokens tokens, const std::vector<std::int64_t>& members)
      : members_(members), end_(tokens.value()) {}

  // Of the next member, in ring order.
  std::array<TokenRange, 2> next() {
    const std::int64_t tokens = members_[position_++];
    const std::int64_t front = (tokens + 1) / 2;
    TokenRange first{begin_, begin_ + front};
    TokenRange second{end_ - (tokens - front), end_};
    begin_ = first.end;
    end_ = second.begin;
    if (first.end == second.begin) {
      first.end = second.end;
      second.begin = second.end;
    }
    return {first, second};
  }

 private:
  const std::vector<std::int64_t>& members_;
  std::size_t position_ = 0;
  std::int64_t begin_ = 0;
  std::int64_t end_ = 0;
};

}  // namespace

StripAssembly::StripAssembly(StepPlan& plan) : plan_(plan) {
  plan_.ranks.resize(static_cast<std::size_t>(plan_.num_ranks));
}

void StripAssembly::append(const StripInput& input, const StripSchedule& schedule) {
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

MicroBatch& StripAssembly::open(std::int32_t rank) {
  auto& list = plan_.ranks[static_cast<std::size_t>(rank)];
  return list.emplace_back(
      MicroBatch{.slot_idx = plan_.num_slots, .offload_ratio = 0, .pieces = {}});
}

void StripAssembly::reserve(const StripInput& input, const StripSchedule& schedule) {
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

void StripAssembly::add_pack(const StripInput& input, const StripSchedule& schedule,
                             const StripPack& pack) {
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

void StripAssembly::add_group(const StripGroup& placed) {
  const auto group_idx = static_cast<std::int32_t>(plan_.groups.size());
  Group& group = plan_.groups.emplace_back(
      Group{.sequence_idx = placed.sequence_idx, .slot_idx = plan_.num_slots, .ranks = {}});
  std::int32_t degree = 0;
  for (const RankInterval& interval : placed.ranks) degree += interval.end - interval.begin;
  group.ranks.reserve(static_cast<std::size_t>(degree));
  const Tokens tokens = plan_.sequences[static_cast<std::size_t>(placed.sequence_idx)].tokens;
  const ZigzagCut cut(tokens, degree);
  UnequalZigzag unequal_cut(tokens, placed.tokens);
  for (const RankInterval& interval : placed.ranks) {
    for (std::int32_t rank = interval.begin; rank < interval.end; ++rank) {
      const auto ranges = placed.tokens.empty()
                              ? cut.ranges(static_cast<std::int32_t>(group.ranks.size()))
                              : unequal_cut.next();
      group.ranks.emplace_back(rank);
      MicroBatch& micro_batch = open(rank);
      micro_batch.pieces.reserve(2);
      for (const TokenRange range : ranges) {
        if (range.empty()) continue;
        micro_batch.pieces.push_back(
            {.sequence_idx = placed.sequence_idx, .group_idx = group_idx, .range = range});
      }
    }
  }
  ++plan_.num_slots;
}

}  // namespace weft
