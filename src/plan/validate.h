// validate(plan): proves that a plan can run and trains exactly its sequences. Runs where a plan is made and again
// where it is used; trusts nothing, also not counts or indices.
#pragma once

#include "plan/step_plan.h"

namespace weft {

// Throws UserError "plan is damaged: <kind>: <where, expected, got>". Kinds, each with its own word in the message:
// "index out of range", "sequence order" (not canonical or duplicate id), "token twice", "token missing",
// "over capacity", "empty piece", "empty micro-batch", "two micro-batches in one slot", "group members"
// (a member without a piece, a piece outside its group's ranks or slot, a member twice, fewer than two),
// "sequence in two groups" (or split without a group), "cycle of slots", "empty slot", "offload ratio".
// Time O(pieces + groups + slots), apart from sorting.
void validate(const StepPlan& plan);

// Also compares the hash: kind "wrong hash".
void validate(const StepPlan& plan, const Hash128& expected_hash);

}  // namespace weft
