#include "plan/validate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "plan/cover_check.h"
#include "plan/damage.h"
#include "plan/plan_codec.h"
#include "plan/sequence_check.h"
#include "plan/slot_order.h"

namespace weft {
namespace {

template <class Index>
void check_index(Index index, std::size_t size, std::string_view what, const auto&... where) {
  if (index < 0 || static_cast<std::uint64_t>(index) >= size) {
    std::string place;
    (place.append(fmt::format("{}", where)), ...);
    refuse_plan("index out of range", "{}: {} is {}, expected 0 <= {} < {}", place, what, index,
                what, size);
  }
}

std::string describe_place(std::int32_t rank, std::size_t micro_batch_idx) {
  return fmt::format("rank {}, micro-batch {}", rank, micro_batch_idx);
}

// Checks one plan from the outside in: each step may rely on what the steps before it have proven,
// so no index is used and no sum is formed before it is known to be safe.
class Validation {
 public:
  explicit Validation(const StepPlan& plan) : plan_(plan), cover_(plan) {}

  void run() {
    check_header();
    tokens_ = checked_tokens(plan_.sequences);
    check_groups();
    for (std::int32_t rank = 0; rank < plan_.num_ranks; ++rank) check_rank(rank);
    check_slots_are_used();
    cover_.judge(group_of_sequence_);
    check_slot_order();
  }

 private:
  void check_header();
  void check_groups();
  void check_members(std::int32_t group_idx);
  void check_rank(std::int32_t rank);
  void check_micro_batch(std::int32_t rank, std::size_t micro_batch_idx);
  void check_piece(std::int32_t rank, std::size_t micro_batch_idx, std::size_t piece_idx);
  void check_group_piece(std::int32_t rank, std::size_t micro_batch_idx, std::size_t piece_idx);
  void check_slots_are_used();
  void check_slot_order();

  const StepPlan& plan_;
  std::vector<std::uint32_t> tokens_;  // [sequences]
  std::vector<std::int32_t>
      group_of_sequence_;  // [up to the last shared one], kNoGroup when it has none
  std::vector<std::uint32_t> first_of_rank_;  // [num_ranks + 1] into groups_of_rank_
  std::vector<std::int32_t> groups_of_rank_;  // of each rank behind one another, ascending
  std::vector<std::int32_t> last_of_rank_;    // [num_ranks]: last group seen
  std::vector<std::int32_t> member_mark_;     // [groups]: the rank now checked is a member
  std::vector<std::int32_t> piece_mark_;      // [groups]: the rank now checked holds a piece
  std::vector<std::int32_t> slot_mark_;       // [num_slots]: last rank seen with this slot
  CoverCheck cover_;
};

void Validation::check_header() {
  constexpr std::string_view kKind = "bad header";
  if (plan_.num_ranks < 1)
    refuse_plan(kKind, "num_ranks is {}, expected at least 1", plan_.num_ranks);
  if (plan_.ranks.size() != static_cast<std::size_t>(plan_.num_ranks)) {
    refuse_plan(kKind, "num_ranks is {}, but there are micro-batch lists for {} ranks",
                plan_.num_ranks, plan_.ranks.size());
  }
  if (plan_.step < 0) refuse_plan(kKind, "step is {}, expected at least 0", plan_.step);
  if (plan_.capacity < Tokens(1)) {
    refuse_plan(kKind, "capacity is {} tokens, expected at least 1", plan_.capacity);
  }
  if (!plan_.rank_capacity.empty() && plan_.rank_capacity.size() != plan_.ranks.size()) {
    refuse_plan(kKind, "rank_capacity has {} values for {} ranks, expected one each or none",
                plan_.rank_capacity.size(), plan_.num_ranks);
  }
  for (std::size_t r = 0; r < plan_.rank_capacity.size(); ++r) {
    const Tokens tokens = plan_.rank_capacity[r];
    if (tokens < Tokens(0) || tokens > plan_.capacity) {
      refuse_plan(kKind, "rank {} has a capacity of {} tokens, expected 0 to {}", r, tokens,
                  plan_.capacity);
    }
  }
  if (plan_.num_layers < 1)
    refuse_plan(kKind, "num_layers is {}, expected at least 1", plan_.num_layers);
  const std::int32_t most_stages = std::min(plan_.num_layers, kMostPipelineStages);
  if (plan_.pipeline_stages < 1 || plan_.pipeline_stages > most_stages) {
    refuse_plan(kKind, "pipeline_stages is {}, expected 1 to {}, with {} layers in a rank",
                plan_.pipeline_stages, most_stages, plan_.num_layers);
  }
  const std::int64_t chunks = std::int64_t{plan_.pipeline_stages} * plan_.virtual_stages;
  if (plan_.virtual_stages < 1 || (plan_.virtual_stages > 1 && (plan_.pipeline_stages == 1 ||
                                                                plan_.num_layers % chunks != 0))) {
    refuse_plan(kKind,
                "virtual_stages is {}, expected 1, or with pipelines a number that divides the {} "
                "layers together with {} stages",
                plan_.virtual_stages, plan_.num_layers, plan_.pipeline_stages);
  }
  if (plan_.weighting != LossWeighting::kToken && plan_.weighting != LossWeighting::kSample) {
    refuse_plan(kKind, "loss weighting is {}, expected 0 (token) or 1 (sample)",
                static_cast<int>(plan_.weighting));
  }
  constexpr std::size_t kMaxIndexed = std::numeric_limits<std::int32_t>::max();
  if (plan_.sequences.size() > kMaxIndexed || plan_.groups.size() > kMaxIndexed) {
    refuse_plan(kKind, "{} sequences and {} groups, expected at most {} of each",
                plan_.sequences.size(), plan_.groups.size(), kMaxIndexed);
  }
  // Before anything of size num_slots is allocated: a slot needs a micro-batch.
  std::size_t num_micro_batches = 0;
  std::size_t num_pieces = 0;
  for (const auto& micro_batches : plan_.ranks) {
    num_micro_batches += micro_batches.size();
    for (const MicroBatch& micro_batch : micro_batches) num_pieces += micro_batch.pieces.size();
  }
  if (num_pieces > kMaxIndexed) {
    refuse_plan(kKind, "{} pieces, expected at most {}", num_pieces, kMaxIndexed);
  }
  if (plan_.num_slots < 0)
    refuse_plan(kKind, "num_slots is {}, expected at least 0", plan_.num_slots);
  if (static_cast<std::size_t>(plan_.num_slots) > num_micro_batches) {
    refuse_plan("empty slot", "{} slots, but only {} micro-batches", plan_.num_slots,
                num_micro_batches);
  }
}

void Validation::check_groups() {
  std::size_t num_shared = 0;  // the longest ones, in a sensible plan
  for (const Group& group : plan_.groups) {
    if (group.sequence_idx >= 0)
      num_shared = std::max(num_shared, static_cast<std::size_t>(group.sequence_idx) + 1);
  }
  group_of_sequence_.assign(std::min(num_shared, plan_.sequences.size()), kNoGroup);
  first_of_rank_.assign(plan_.ranks.size() + 1, 0);
  last_of_rank_.assign(plan_.ranks.size(), kNoGroup);
  member_mark_.assign(plan_.groups.size(), kNoGroup);
  piece_mark_.assign(plan_.groups.size(), kNoGroup);
  slot_mark_.assign(static_cast<std::size_t>(plan_.num_slots), kNoGroup);
  for (std::size_t g = 0; g < plan_.groups.size(); ++g) {
    const Group& group = plan_.groups[g];
    check_index(group.sequence_idx, plan_.sequences.size(), "sequence_idx", "group ", g);
    check_index(group.slot_idx, slot_mark_.size(), "slot_idx", "group ", g);
    std::int32_t& owner = group_of_sequence_[static_cast<std::size_t>(group.sequence_idx)];
    if (owner != kNoGroup) {
      refuse_plan("sequence in two groups", "groups {} and {} both share sequence {}", owner, g,
                  group.sequence_idx);
    }
    owner = static_cast<std::int32_t>(g);
    check_members(owner);
  }
  std::partial_sum(first_of_rank_.begin(), first_of_rank_.end(), first_of_rank_.begin());
  groups_of_rank_.resize(first_of_rank_.back());
  cover_.expect(2 * groups_of_rank_.size());
  std::vector<std::uint32_t> next(first_of_rank_.begin(), first_of_rank_.end() - 1);
  for (std::size_t g = 0; g < plan_.groups.size(); ++g) {
    for (const Rank rank : plan_.groups[g].ranks)
      groups_of_rank_[next[static_cast<std::size_t>(rank.value())]++] =
          static_cast<std::int32_t>(g);
  }
}

void Validation::check_members(std::int32_t group_idx) {
  const Group& group = plan_.groups[static_cast<std::size_t>(group_idx)];
  if (group.ranks.size() < 2) {
    refuse_plan("group members", "group {} has {} ranks, expected at least 2", group_idx,
                group.ranks.size());
  }
  for (const Rank rank : group.ranks) {
    check_index(rank.value(), plan_.ranks.size(), "rank", "group ", group_idx);
    // Groups come in ascending order, so a rank that is listed twice has this group as its last
    // one.
    std::int32_t& last = last_of_rank_[static_cast<std::size_t>(rank.value())];
    if (last == group_idx) {
      refuse_plan("group members", "group {} lists rank {} twice", group_idx, rank);
    }
    last = group_idx;
    ++first_of_rank_[static_cast<std::size_t>(rank.value()) + 1];
  }
}

void Validation::check_rank(std::int32_t rank) {
  const auto at = static_cast<std::size_t>(rank);
  const auto groups = std::span(groups_of_rank_)
                          .subspan(first_of_rank_[at], first_of_rank_[at + 1] - first_of_rank_[at]);
  for (const std::int32_t g : groups) member_mark_[static_cast<std::size_t>(g)] = rank;
  // Sequences of a rank lie far apart: fetched all at once, not one after the other.
  for (const MicroBatch& micro_batch : plan_.ranks[at]) {
    for (const Piece& piece : micro_batch.pieces) {
      if (static_cast<std::size_t>(piece.sequence_idx) < tokens_.size())
        __builtin_prefetch(&tokens_[static_cast<std::size_t>(piece.sequence_idx)]);
    }
  }
  for (std::size_t m = 0; m < plan_.ranks[static_cast<std::size_t>(rank)].size(); ++m) {
    check_micro_batch(rank, m);
  }
  for (const std::int32_t g : groups) {
    if (piece_mark_[static_cast<std::size_t>(g)] != rank) {
      refuse_plan("group members", "rank {} is in group {}, but holds no piece of its sequence {}",
                  rank, g, plan_.groups[static_cast<std::size_t>(g)].sequence_idx);
    }
  }
}

void Validation::check_micro_batch(std::int32_t rank, std::size_t micro_batch_idx) {
  const MicroBatch& micro_batch = plan_.ranks[static_cast<std::size_t>(rank)][micro_batch_idx];
  if (micro_batch.slot_idx < 0 || micro_batch.slot_idx >= plan_.num_slots) {
    check_index(micro_batch.slot_idx, slot_mark_.size(), "slot_idx",
                describe_place(rank, micro_batch_idx));
  }
  std::int32_t& mark = slot_mark_[static_cast<std::size_t>(micro_batch.slot_idx)];
  if (mark == rank) {
    refuse_plan(
        "two micro-batches in one slot",
        "{} is in slot {}, and so is an earlier one of this rank; a group in the slot would wait "
        "for itself",
        describe_place(rank, micro_batch_idx), micro_batch.slot_idx);
  }
  mark = rank;
  const double offload_ratio = micro_batch.offload_ratio;
  if (!(offload_ratio >= 0 && offload_ratio <= 1) || std::signbit(offload_ratio)) {
    refuse_plan("offload ratio", "{} has {}, expected 0 to 1",
                describe_place(rank, micro_batch_idx), offload_ratio);
  }
  if (micro_batch.pieces.empty()) {
    refuse_plan("empty micro-batch", "{} has no piece", describe_place(rank, micro_batch_idx));
  }
  for (std::size_t p = 0; p < micro_batch.pieces.size(); ++p) check_piece(rank, micro_batch_idx, p);
  const double resident = resident_tokens(micro_batch.tokens(), offload_ratio, plan_.num_layers);
  const Tokens capacity = plan_.capacity_of(Rank(rank));
  if (resident > static_cast<double>(capacity.value())) {
    refuse_plan("over capacity", "{} keeps {} of its {} tokens resident, the capacity is {}",
                describe_place(rank, micro_batch_idx), resident, micro_batch.tokens(), capacity);
  }
}

void Validation::check_piece(std::int32_t rank, std::size_t micro_batch_idx,
                             std::size_t piece_idx) {
  const auto place = [&] {
    return fmt::format("{}, piece {}", describe_place(rank, micro_batch_idx), piece_idx);
  };
  const Piece& piece =
      plan_.ranks[static_cast<std::size_t>(rank)][micro_batch_idx].pieces[piece_idx];
  if (piece.sequence_idx < 0 ||
      static_cast<std::size_t>(piece.sequence_idx) >= plan_.sequences.size()) {
    check_index(piece.sequence_idx, plan_.sequences.size(), "sequence_idx", place());
  }
  if (piece.range.empty()) {
    refuse_plan("empty piece", "{} holds {} of sequence {}", place(), piece.range,
                piece.sequence_idx);
  }
  const auto sequence_idx = static_cast<std::size_t>(piece.sequence_idx);
  const Tokens tokens(tokens_[sequence_idx]);
  if (piece.range.begin < 0 || piece.range.end > tokens.value()) {
    refuse_plan("index out of range", "{} holds {} of sequence {}, which has {} tokens", place(),
                piece.range, piece.sequence_idx, tokens);
  }
  if (piece.group_idx == kNoGroup) {
    if (sequence_idx < group_of_sequence_.size() && group_of_sequence_[sequence_idx] != kNoGroup) {
      refuse_plan("sequence in two groups",
                  "{} holds {} of sequence {} alone, but group {} shares it", place(), piece.range,
                  piece.sequence_idx, group_of_sequence_[sequence_idx]);
    }
  } else {
    if (piece.group_idx < 0 || static_cast<std::size_t>(piece.group_idx) >= plan_.groups.size()) {
      check_index(piece.group_idx, plan_.groups.size(), "group_idx", place());
    }
    check_group_piece(rank, micro_batch_idx, piece_idx);
  }
  cover_.see(rank, piece, tokens);
}

void Validation::check_group_piece(std::int32_t rank, std::size_t micro_batch_idx,
                                   std::size_t piece_idx) {
  const MicroBatch& micro_batch = plan_.ranks[static_cast<std::size_t>(rank)][micro_batch_idx];
  const Piece& piece = micro_batch.pieces[piece_idx];
  const auto g = static_cast<std::size_t>(piece.group_idx);
  const Group& group = plan_.groups[g];
  const auto refuse_piece = [&](std::string_view kind, const std::string& reason) {
    refuse_plan(kind, "{}, piece {} of group {}: {}", describe_place(rank, micro_batch_idx),
                piece_idx, piece.group_idx, reason);
  };
  if (piece.sequence_idx != group.sequence_idx) {
    refuse_piece("group members", fmt::format("it is of sequence {}, the group shares sequence {}",
                                              piece.sequence_idx, group.sequence_idx));
  }
  if (member_mark_[g] != rank) refuse_piece("group members", "the rank is not in the group");
  if (micro_batch.slot_idx != group.slot_idx) {
    refuse_piece("group members", fmt::format("the micro-batch is in slot {}, the group in slot {}",
                                              micro_batch.slot_idx, group.slot_idx));
  }
  // With the check above and one micro-batch a slot, a marked group was met in this micro-batch.
  const bool continues =
      piece_idx > 0 && micro_batch.pieces[piece_idx - 1].group_idx == piece.group_idx;
  if (piece_mark_[g] == rank && !continues) {
    refuse_piece("group order", "the rank's pieces of this group do not lie together");
  }
  if (!continues) {
    for (std::size_t p = piece_idx; p-- > 0;) {
      const std::int32_t earlier = micro_batch.pieces[p].group_idx;
      if (earlier == kNoGroup) continue;
      if (earlier > piece.group_idx) {
        refuse_piece("group order",
                     fmt::format("it comes after group {}; expected ascending groups, "
                                 "the order in which every rank runs them",
                                 earlier));
      }
      break;
    }
  }
  piece_mark_[g] = rank;
}

void Validation::check_slots_are_used() {
  const auto unused = std::find(slot_mark_.begin(), slot_mark_.end(), kNoGroup);
  if (unused != slot_mark_.end()) {
    refuse_plan("empty slot", "slot {} of {} has no micro-batch", unused - slot_mark_.begin(),
                plan_.num_slots);
  }
}

void Validation::check_slot_order() {
  const SlotOrder order = order_slots(plan_);
  if (!order.cycle.empty()) {
    refuse_plan("cycle of slots", "{}; these ranks would wait for each other for ever",
                describe_cycle(order.cycle));
  }
}

}  // namespace

void validate_work(const StepPlan& plan) { Validation(plan).run(); }

void validate_times(const StepPlan& plan) {
  if (plan.lower_bound < Nanoseconds(0) || plan.makespan < plan.lower_bound) {
    refuse_plan(
        "bad header",
        "makespan is {} ns and its lower bound {} ns, expected 0 <= lower bound <= makespan",
        plan.makespan, plan.lower_bound);
  }
}

void validate(const StepPlan& plan) {
  validate_times(plan);
  validate_work(plan);
}

void validate(const StepPlan& plan, const Hash128& expected_hash) {
  const Hash128 hash = plan_hash(plan);
  if (hash != expected_hash) {
    refuse_plan("wrong hash",
                "the plan's hash is {}, expected {}; the ranks do not follow the same plan",
                hash.hex(), expected_hash.hex());
  }
  validate(plan);
}

}  // namespace weft
