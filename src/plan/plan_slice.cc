#include "plan/plan_slice.h"

#include <algorithm>

#include "base/binary_io.h"
#include "base/error.h"
#include "plan/plan_wire.h"

namespace weft {
namespace {

constexpr std::string_view kMagic = "WEFTSLIC";
// Least sizes: their lists may be empty.
constexpr std::size_t kGroupBytes = 3 * sizeof(std::int32_t) + 2 * sizeof(std::uint64_t);
constexpr std::size_t kMemberBytes = sizeof(std::uint64_t);

// Place of `value` in a sorted list that holds it.
std::int32_t index_in(const std::vector<std::int32_t>& sorted, std::int32_t value) {
  return static_cast<std::int32_t>(std::lower_bound(sorted.begin(), sorted.end(), value) -
                                   sorted.begin());
}

void sort_and_drop_repeats(std::vector<std::int32_t>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

// The member's pieces of the group, in the order of its rows. A rank has at most one micro-batch in
// a slot.
std::vector<TokenRange> ranges_of_member(const StepPlan& plan, std::int32_t group_idx,
                                         Rank member) {
  std::vector<TokenRange> ranges;
  const std::int32_t slot_idx = plan.groups[static_cast<std::size_t>(group_idx)].slot_idx;
  for (const MicroBatch& micro_batch : plan.ranks[static_cast<std::size_t>(member.value())]) {
    if (micro_batch.slot_idx != slot_idx) continue;
    for (const Piece& piece : micro_batch.pieces) {
      if (piece.group_idx == group_idx) ranges.push_back(piece.range);
    }
  }
  return ranges;
}

GroupSlice slice_group(const StepPlan& plan, std::int32_t group_idx, Rank rank) {
  const Group& group = plan.groups[static_cast<std::size_t>(group_idx)];
  GroupSlice slice;
  slice.plan_group_idx = group_idx;
  slice.ranks = group.ranks;
  const auto place = std::find(group.ranks.begin(), group.ranks.end(), rank);
  WEFT_CHECK(place != group.ranks.end(), "rank {} holds a piece of group {} without being in it",
             rank, group_idx);
  slice.position = static_cast<std::int32_t>(place - group.ranks.begin());
  slice.member_ranges.reserve(group.ranks.size());
  for (const Rank member : group.ranks) {
    slice.member_ranges.push_back(ranges_of_member(plan, group_idx, member));
  }
  return slice;
}

void check_index(std::int64_t index, std::size_t size, std::string_view what,
                 const std::string& source) {
  WEFT_USER_CHECK(index >= 0 && static_cast<std::uint64_t>(index) < size,
                  "{}: damaged plan slice: {} is {}, expected 0 <= {} < {}", source, what, index,
                  what, size);
}

void check_range(TokenRange range, const PlanSlice& slice, std::int32_t sequence_idx,
                 std::string_view what, const std::string& source) {
  const Tokens tokens = slice.sequences[static_cast<std::size_t>(sequence_idx)].tokens;
  WEFT_USER_CHECK(0 <= range.begin && range.begin < range.end && range.end <= tokens.value(),
                  "{}: damaged plan slice: {} is [{}, {}), expected a part of its sequence's {} "
                  "tokens",
                  source, what, range.begin, range.end, tokens);
}

// What an executor indexes with or sizes messages by must be consistent before it sees the slice.
void check_slice(const PlanSlice& slice, const std::string& source) {
  WEFT_USER_CHECK(
      slice.weighting == LossWeighting::kToken || slice.weighting == LossWeighting::kSample,
      "{}: damaged plan slice: loss weighting is {}, expected 0 (token) or 1 (sample)", source,
      static_cast<int>(slice.weighting));
  check_index(slice.rank.value(), static_cast<std::size_t>(std::max(slice.num_ranks, 0)), "rank",
              source);
  for (const GroupSlice& group : slice.groups) {
    check_index(group.sequence_idx, slice.sequences.size(), "a group's sequence_idx", source);
    check_index(group.position, group.ranks.size(), "a group's position", source);
    WEFT_USER_CHECK(group.ranks[static_cast<std::size_t>(group.position)] == slice.rank,
                    "{}: damaged plan slice: group {} has rank {} at position {}, expected rank {}",
                    source, group.plan_group_idx,
                    group.ranks[static_cast<std::size_t>(group.position)], group.position,
                    slice.rank);
    WEFT_USER_CHECK(group.member_ranges.size() == group.ranks.size(),
                    "{}: damaged plan slice: group {} has {} ranks, but ranges of {} members",
                    source, group.plan_group_idx, group.ranks.size(), group.member_ranges.size());
    for (const auto& ranges : group.member_ranges) {
      for (const TokenRange range : ranges) {
        check_range(range, slice, group.sequence_idx, "a member's range", source);
      }
    }
  }
  for (const MicroBatch& micro_batch : slice.micro_batches) {
    for (const Piece& piece : micro_batch.pieces) {
      check_index(piece.sequence_idx, slice.sequences.size(), "a piece's sequence_idx", source);
      if (piece.group_idx != kNoGroup) {
        check_index(piece.group_idx, slice.groups.size(), "a piece's group_idx", source);
      }
      check_range(piece.range, slice, piece.sequence_idx, "a piece's range", source);
    }
  }
}

GroupSlice read_group(ByteReader& reader) {
  GroupSlice group;
  group.plan_group_idx = reader.read<std::int32_t>();
  group.sequence_idx = reader.read<std::int32_t>();
  group.position = reader.read<std::int32_t>();
  group.ranks = plan_wire::read_ranks(reader);
  group.member_ranges.resize(reader.read_count(kMemberBytes));
  for (auto& ranges : group.member_ranges) {
    ranges.resize(reader.read_count(plan_wire::kRangeBytes));
    for (TokenRange& range : ranges) range = plan_wire::read_range(reader);
  }
  return group;
}

}  // namespace

bool share_a_ring(const GroupSlice& group, const GroupSlice& next) {
  return group.plan_group_idx + 1 == next.plan_group_idx && group.ranks == next.ranks;
}

PlanSlice slice_plan(const StepPlan& plan, const Hash128& hash, Rank rank) {
  WEFT_CHECK(rank.value() >= 0 && static_cast<std::size_t>(rank.value()) < plan.ranks.size(),
             "slice of rank {} of {}", rank, plan.ranks.size());
  PlanSlice slice;
  slice.plan_hash = hash;
  slice.step = plan.step;
  slice.rank = rank;
  slice.num_ranks = plan.num_ranks;
  slice.weighting = plan.weighting;
  slice.total_weight = total_weight(plan.sequences, plan.weighting);
  slice.micro_batches = plan.ranks[static_cast<std::size_t>(rank.value())];

  std::vector<std::int32_t> sequences, groups;
  for (const MicroBatch& micro_batch : slice.micro_batches) {
    for (const Piece& piece : micro_batch.pieces) {
      sequences.push_back(piece.sequence_idx);
      if (piece.group_idx != kNoGroup) groups.push_back(piece.group_idx);
    }
  }
  sort_and_drop_repeats(sequences);
  sort_and_drop_repeats(groups);
  for (const std::int32_t s : sequences) {
    slice.sequences.push_back(plan.sequences[static_cast<std::size_t>(s)]);
  }
  for (const std::int32_t g : groups) {
    slice.groups.push_back(slice_group(plan, g, rank));
    slice.groups.back().sequence_idx =
        index_in(sequences, plan.groups[static_cast<std::size_t>(g)].sequence_idx);
  }
  for (MicroBatch& micro_batch : slice.micro_batches) {
    for (Piece& piece : micro_batch.pieces) {
      piece.sequence_idx = index_in(sequences, piece.sequence_idx);
      if (piece.group_idx != kNoGroup) piece.group_idx = index_in(groups, piece.group_idx);
    }
  }
  return slice;
}

std::vector<std::byte> encode_slice(const PlanSlice& slice) {
  ByteWriter writer;
  writer.write(slice.plan_hash.high);
  writer.write(slice.plan_hash.low);
  writer.write(slice.step);
  writer.write(slice.rank.value());
  writer.write(slice.num_ranks);
  writer.write(static_cast<std::uint8_t>(slice.weighting));
  writer.write(slice.total_weight);
  plan_wire::write_sequences(writer, slice.sequences);
  writer.write(static_cast<std::uint64_t>(slice.groups.size()));
  for (const GroupSlice& group : slice.groups) {
    writer.write(group.plan_group_idx);
    writer.write(group.sequence_idx);
    writer.write(group.position);
    plan_wire::write_ranks(writer, group.ranks);
    writer.write(static_cast<std::uint64_t>(group.member_ranges.size()));
    for (const auto& ranges : group.member_ranges) {
      writer.write(static_cast<std::uint64_t>(ranges.size()));
      for (const TokenRange range : ranges) plan_wire::write_range(writer, range);
    }
  }
  plan_wire::write_micro_batches(writer, slice.micro_batches);
  return plan_wire::wrap(kMagic, kSliceVersion, writer.bytes());
}

PlanSlice decode_slice(std::span<const std::byte> bytes, const std::string& source) {
  ByteReader reader(
      plan_wire::unwrap(bytes, kMagic, {kSliceVersion, kSliceVersion}, "plan slice", source)
          .payload,
      source);
  PlanSlice slice;
  slice.plan_hash.high = reader.read<std::uint64_t>();
  slice.plan_hash.low = reader.read<std::uint64_t>();
  slice.step = reader.read<std::int64_t>();
  slice.rank = Rank(reader.read<std::int32_t>());
  slice.num_ranks = reader.read<std::int32_t>();
  slice.weighting = static_cast<LossWeighting>(reader.read<std::uint8_t>());
  slice.total_weight = reader.read<std::int64_t>();
  slice.sequences = plan_wire::read_sequences(reader);
  slice.groups.resize(reader.read_count(kGroupBytes));
  for (GroupSlice& group : slice.groups) group = read_group(reader);
  slice.micro_batches = plan_wire::read_micro_batches(reader);
  reader.expect_end();
  check_slice(slice, source);
  return slice;
}

}  // namespace weft
