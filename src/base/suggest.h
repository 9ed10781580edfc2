// The nearest valid name to a misspelt one, for "unknown key 'learning_rat'; did you mean
// 'learning_rate'?".
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace weft {

// The candidate with the least edit distance (insert, delete, replace, swap neighbours; '-' counts
// as '_', case does not count), or nullopt when even that is more than half the word away.
std::optional<std::string> nearest_name(std::string_view word,
                                        std::span<const std::string> candidates);

}  // namespace weft
