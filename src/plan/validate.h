// validate(plan): proves that a plan can run and trains exactly its sequences. Runs where a plan is
// made and again where it is used; trusts nothing, also not counts or indices. docs/plan-value.md
// has the proof that an accepted plan cannot deadlock.
#pragma once

#include "plan/step_plan.h"

namespace weft {

// Throws UserError "plan is damaged: <kind>: <where, expected, got>". The kinds:
// - "bad header": num_ranks below 1 or not the number of lists; capacity, num_layers,
//   pipeline_stages, step, num_slots or weighting out of range; not 0 <= lower_bound <= makespan
// - "bad sequence": tokens outside 1..2^32-1, targets outside 0..tokens
// - "sequence order": not canonical, or a duplicate id
// - "index out of range": of a sequence, group, slot or rank, or a range that leaves its
//   sequence
// - "group members": a member without a piece, a piece outside its group's ranks, slot or
//   sequence, a member twice, fewer than two
// - "group order": a member's pieces of one group do not lie together, or groups do not
//   ascend
// - "sequence in two groups": also a shared sequence's piece without its group, or a split
//   without a group
// - "two micro-batches in one slot", "empty micro-batch", "empty piece", "empty slot"
// - "over capacity": resident tokens, compared exactly (round an offload ratio up)
// - "offload ratio": not in [0, 1], NaN, or -0
// - "token twice", "token missing"
// - "cycle of slots"
//
// Time O(pieces + members + slots), apart from sorting inside each sequence.
void validate(const StepPlan& plan);

// Its two parts: all but the predicted times, which may not be known yet; and these.
void validate_work(const StepPlan& plan);
void validate_times(const StepPlan& plan);

// Also compares the hash: kind "wrong hash".
void validate(const StepPlan& plan, const Hash128& expected_hash);

}  // namespace weft
