// The part of validate() that looks at the sequences: canonical order, ids that differ, lengths and
// targets that later sums can bear.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "plan/step_plan.h"

namespace weft {

// An id that two of them have, in whatever order they are.
std::optional<std::int64_t> repeated_id(std::span<const SequenceSpec> sequences);

// UserError of kind "bad sequence" or "sequence order". What it returns are the sequences' tokens,
// close together: pieces refer to sequences in no order, and a large step's do not stay in a cache.
std::vector<std::uint32_t> checked_tokens(std::span<const SequenceSpec> sequences);

}  // namespace weft
