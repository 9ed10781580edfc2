// StepPlan: which rank runs which tokens of one step, as a value (ByteScale section 5.1, 6; design
// section 1).
//
// A plan is made once, never changed, compared by its hash, and obeyed by every executor. Its
// canonical form is binary (encode_plan); JSON is a streamed view of it. Ranks exchange nothing
// that is not in the plan.
//
// Invariants, all checked by validate(): every token of every sequence is in exactly one piece; no
// micro-batch holds more resident tokens than its rank's capacity; every member of a group has
// exactly one micro-batch with pieces of the group's sequence, and all these micro-batches are in
// the group's slot; no rank has two micro-batches in one slot; inside a micro-batch the pieces of a
// group lie together and groups ascend; the order of slots over all ranks has no cycle.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/checksum.h"
#include "base/token_range.h"
#include "base/units.h"

namespace weft {

// One sequence as the planner sees it. A plan's input is a set of these; canonical order is tokens
// descending, then id ascending.
struct SequenceSpec {
  std::int64_t id = 0;           // unique within the step; says where the loader finds the tokens
  Tokens tokens;                 // >= 1
  std::int64_t num_targets = 0;  // tokens whose prediction counts in the loss, 0..tokens
  friend auto operator<=>(const SequenceSpec&, const SequenceSpec&) = default;
};

// Largest capacity, context and batch that a plan may be asked for; times 2^20 ranks it still fits
// in 63 bits.
inline constexpr Tokens kMostTokens{std::int64_t{1} << 40};
inline constexpr std::int32_t kMostRanks = 1 << 20;
inline constexpr std::int32_t kMostPipelineStages = 1 << 10;

// ceil(tokens / capacity): the least number of ranks that hold a sequence (ByteScale section 5.1).
std::int64_t ranks_needed(Tokens tokens, Tokens capacity);

// How targets are weighted (design section 3 "Loss"). kToken: w = 1. kSample: w = 1 / targets of
// the sequence.
enum class LossWeighting : std::uint8_t { kToken = 0, kSample = 1 };

std::string_view to_string(LossWeighting weighting);  // "token", "sample"
LossWeighting parse_loss_weighting(std::string_view text,
                                   std::string_view what);  // UserError names `what`

inline constexpr std::int32_t kNoGroup = -1;

// A token range of one sequence, held by one rank in one micro-batch. A whole sequence on one rank
// has group_idx == kNoGroup; a rank of a group may hold several pieces of the group's sequence.
struct Piece {
  std::int32_t sequence_idx = 0;      // into StepPlan::sequences
  std::int32_t group_idx = kNoGroup;  // into StepPlan::groups
  TokenRange range;
  friend bool operator==(const Piece&, const Piece&) = default;
};

// What a rank runs in one forward and backward. Rows of its tensors are its pieces, concatenated in
// this order. Whole sequences may stand anywhere between groups; the pieces of one group are
// neighbours, in any order of their ranges, and a group with a smaller index comes first.
struct MicroBatch {
  std::int32_t slot_idx = 0;
  double offload_ratio = 0;  // r in [0, 1]: share of activations that wait outside device memory
  std::vector<Piece> pieces;
  Tokens tokens() const;
  friend bool operator==(const MicroBatch&, const MicroBatch&) = default;
};

// The ranks that share one sequence, in ring order. Inside a slot every rank runs its groups in
// index order.
struct Group {
  std::int32_t sequence_idx = 0;
  std::int32_t slot_idx = 0;
  std::vector<Rank> ranks;  // distinct, at least 2
  friend bool operator==(const Group&, const Group&) = default;
};

struct StepPlan {
  std::int64_t step = 0;
  std::uint64_t seed = 0;
  std::string strategy;        // "static", "hdp-naive", "hdp", ...
  std::int32_t num_ranks = 1;  // N
  Tokens capacity;             // C: resident tokens a rank may hold in one micro-batch
  // [num_ranks]: what each rank may hold, 0..capacity, where they differ; empty = capacity for all.
  std::vector<Tokens> rank_capacity;
  std::int32_t num_layers = 1;  // layers per rank: enters the resident-token formula when r > 0
  std::int32_t pipeline_stages = 1;  // p: every rank is a pipeline of so many stages
  std::int32_t virtual_stages = 1;   // V: chunks of layers a device of it holds (plan/pass_order.h)
  LossWeighting weighting = LossWeighting::kToken;
  std::vector<SequenceSpec> sequences;  // canonical order
  std::vector<Group> groups;            // plan order
  std::int32_t num_slots = 0;           // every slot in [0, num_slots) has at least one micro-batch
  std::vector<std::vector<MicroBatch>> ranks;  // [num_ranks], each in execution order; may be empty
  Nanoseconds makespan;                        // predicted: evaluate(plan, cost, cluster)
  Nanoseconds lower_bound;                     // proven: no plan of this plan space can be faster
  friend bool operator==(const StepPlan&, const StepPlan&) = default;

  Tokens capacity_of(Rank rank) const;
  // (makespan - lower_bound) / lower_bound; 0 when both are equal (as in an empty plan), infinite
  // when only the bound is 0.
  double gap() const;
};

// W of the loss: the sum of target weights over the whole step. Exact: an integer in both modes
// (kSample: the number of sequences that have a target).
std::int64_t total_weight(std::span<const SequenceSpec> sequences, LossWeighting weighting);
// Weight of one target of this sequence; 0 when it has none.
double target_weight(const SequenceSpec& sequence, LossWeighting weighting);

// tokens * (min(2, l) + (1 - r) * max(l - 2, 0)) / l: tokens whose activations stay on the rank
// (design section 3).
double resident_tokens(Tokens tokens, double offload_ratio, std::int32_t num_layers);

// Sorts into canonical order.
void sort_canonically(std::vector<SequenceSpec>& sequences);
std::vector<SequenceSpec> sorted_canonically(std::span<const SequenceSpec> sequences);

// The zigzag cut of a sequence over D ranks: its 2D parts are as equal as its length allows (sizes
// differ by at most 1, longer parts first), and ring member i takes parts i and 2D-1-i (ByteScale
// section 7, Fig. 14).
class ZigzagCut {
 public:
  ZigzagCut(Tokens tokens, std::int32_t degree);
  // Both parts in order; either may be empty, and neighbouring ones are joined in the first.
  std::array<TokenRange, 2> ranges(std::int32_t position) const;

 private:
  std::int64_t num_parts_ = 2;
  std::int64_t least_ = 0;       // size of the shorter parts
  std::int64_t num_longer_ = 0;  // parts with one token more
};

// The 2D parts of a sequence cut as equally as its length allows (part sizes differ by at most 1,
// longer parts first; parts are empty when tokens < 2D), and the pieces that ring member `position`
// takes of them: parts `position` and 2D-1-position, empty ones left out, neighbouring ones joined
// (ByteScale section 7, Fig. 14). Members' totals differ by at most 1. Members at positions >=
// tokens get nothing (an empty list); a plan's group holds only members with a piece, so planners
// choose D <= tokens.
std::vector<TokenRange> zigzag_ranges(Tokens tokens, std::int32_t degree, std::int32_t position);

}  // namespace weft
