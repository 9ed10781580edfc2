#include "plan/packing.h"

#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"

namespace weft {

std::vector<std::vector<std::int32_t>> pack_best_fit(std::span<const PackableSequence> sequences,
                                                     Tokens capacity) {
  std::vector<std::vector<std::int32_t>> bins;
  std::set<std::pair<Tokens, std::size_t>> rooms;  // (free tokens, bin)
  for (const auto& [sequence_idx, tokens] : sequences) {
    WEFT_CHECK(tokens <= capacity, "a sequence of {} tokens and bins of {}", tokens, capacity);
    auto fullest = rooms.lower_bound({tokens, 0});
    Tokens room = capacity;
    std::size_t bin = bins.size();
    if (fullest == rooms.end()) {
      bins.emplace_back();
    } else {
      std::tie(room, bin) = *fullest;
      rooms.erase(fullest);
    }
    bins[bin].push_back(sequence_idx);
    rooms.insert({room - tokens, bin});
  }
  return bins;
}

}  // namespace weft
