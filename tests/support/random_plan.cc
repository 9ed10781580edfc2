#include "tests/support/random_plan.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/random.h"

namespace weft {
namespace {

// A counter over a RandomStream.
class Dice {
 public:
  Dice(std::uint64_t seed, std::string_view purpose) : stream_(seed, purpose) {}
  // [low, high], both included.
  std::int64_t between(std::int64_t low, std::int64_t high) {
    WEFT_CHECK(low <= high, "nothing between {} and {}", low, high);
    return low + static_cast<std::int64_t>(
                     stream_.below(next_++, static_cast<std::uint64_t>(high - low) + 1));
  }
  bool one_in(std::int64_t n) { return between(1, n) == 1; }
  template <class T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) {
      std::swap(items[i - 1],
                items[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(i) - 1))]);
    }
  }

 private:
  RandomStream stream_;
  std::uint64_t next_ = 0;
};

// One sequence with the ranks and ranges it has drawn, before it has a slot. One rank: a whole
// sequence.
struct Placement {
  std::int32_t sequence_idx = 0;
  std::vector<Rank> ranks;
  std::vector<std::vector<TokenRange>> ranges;  // [ranks]
  std::int64_t tokens_of(std::size_t member) const {
    std::int64_t sum = 0;
    for (const TokenRange range : ranges[member]) sum += range.size();
    return sum;
  }
};

struct OpenSlot {
  std::map<Rank, std::int64_t> tokens;  // of each rank in the slot
  std::vector<Placement> placements;
};

class PlanDraw {
 public:
  explicit PlanDraw(const RandomPlanOptions& options)
      : options_(options), dice_(options.seed, "random plan") {
    plan_.seed = options.seed;
    plan_.strategy = "random";
    plan_.num_ranks = options.num_ranks;
    plan_.capacity = options.capacity;
    plan_.num_layers = options.num_layers;
    plan_.weighting = options.weighting;
    plan_.sequences = options.sequences;
    sort_canonically(plan_.sequences);
    plan_.ranks.resize(static_cast<std::size_t>(options.num_ranks));
  }

  StepPlan draw() {
    std::vector<std::int32_t> order(plan_.sequences.size());
    std::iota(order.begin(), order.end(), 0);
    dice_.shuffle(order);
    // Sometimes part of the ranks stays idle, unless a sequence needs them all.
    for (std::int32_t r = 0; r < options_.num_ranks; ++r) ranks_by_use_.emplace_back(r);
    dice_.shuffle(ranks_by_use_);
    num_in_use_ = dice_.one_in(4) ? dice_.between(1, options_.num_ranks) : options_.num_ranks;
    for (const std::int32_t s : order) place(draw_placement(s));
    number_slots();
    number_groups();
    fill_micro_batches();
    return std::move(plan_);
  }

 private:
  Placement draw_placement(std::int32_t sequence_idx);
  void cut_unequally(std::int64_t tokens, Placement& placement);
  void place(Placement placement);
  void number_slots();
  void number_groups();
  void fill_micro_batches();
  MicroBatch draw_micro_batch(std::int32_t slot_idx, Rank rank);

  const RandomPlanOptions& options_;
  Dice dice_;
  StepPlan plan_;
  std::vector<Rank>
      ranks_by_use_;  // the first num_in_use_ serve every sequence, the others only one too long
  std::int64_t num_in_use_ = 1;
  std::vector<std::int32_t> group_of_sequence_;
  std::vector<OpenSlot> slots_;  // after number_slots(): by slot_idx
};

Placement PlanDraw::draw_placement(std::int32_t sequence_idx) {
  const SequenceSpec& sequence = plan_.sequences[static_cast<std::size_t>(sequence_idx)];
  const std::int64_t tokens = sequence.tokens.value();
  const std::int64_t capacity = options_.capacity.value();
  const std::int64_t least = (tokens + capacity - 1) / capacity;
  WEFT_USER_CHECK(least <= options_.num_ranks,
                  "random plan: sequence {} of {} tokens needs {} ranks of {} tokens, there are {}",
                  sequence.id, tokens, least, capacity, options_.num_ranks);
  const std::int64_t most = std::min(tokens, std::max(least, num_in_use_));
  const std::int64_t degree = least == 1 && dice_.one_in(2) ? 1 : dice_.between(least, most);

  Placement placement;
  placement.sequence_idx = sequence_idx;
  std::vector<Rank> ranks(ranks_by_use_.begin(),
                          ranks_by_use_.begin() + std::max(degree, num_in_use_));
  dice_.shuffle(ranks);
  placement.ranks.assign(ranks.begin(), ranks.begin() + degree);
  placement.ranges.resize(placement.ranks.size());
  if (degree == 1) {
    placement.ranges[0] = {TokenRange{0, tokens}};
  } else if (options_.allow_unequal_cuts && !dice_.one_in(4)) {
    cut_unequally(tokens, placement);
  } else {
    for (std::int32_t i = 0; i < degree; ++i) {
      placement.ranges[static_cast<std::size_t>(i)] =
          zigzag_ranges(sequence.tokens, static_cast<std::int32_t>(degree), i);
    }
  }
  return placement;
}

void PlanDraw::cut_unequally(std::int64_t tokens, Placement& placement) {
  constexpr std::int64_t kMostPieces = 5;
  const std::int64_t capacity = options_.capacity.value();
  const auto degree = static_cast<std::int64_t>(placement.ranks.size());
  std::vector<std::pair<std::size_t, std::int64_t>> pieces;  // member, tokens
  std::int64_t left = tokens;
  for (std::int64_t i = 0; i < degree; ++i) {
    const std::int64_t later = degree - 1 - i;  // each of them takes 1 to capacity tokens
    const std::int64_t low = std::max<std::int64_t>(1, left - later * capacity);
    const std::int64_t high = std::min(capacity, left - later);
    std::int64_t share = dice_.one_in(4) ? low : dice_.between(low, high);
    left -= share;
    for (std::int64_t p = dice_.between(1, kMostPieces); p > 1 && share > 1; --p) {
      const std::int64_t size = dice_.one_in(3) ? 1 : dice_.between(1, share - 1);
      pieces.emplace_back(static_cast<std::size_t>(i), size);
      share -= size;
    }
    pieces.emplace_back(static_cast<std::size_t>(i), share);
  }
  dice_.shuffle(pieces);
  std::int64_t begin = 0;
  for (const auto& [member, size] : pieces) {
    placement.ranges[member].push_back({begin, begin + size});
    begin += size;
  }
  for (auto& ranges : placement.ranges) {
    if (dice_.one_in(3)) dice_.shuffle(ranges);
  }
}

// Into a random slot that it shares a rank with and that has room, or into a new one.
void PlanDraw::place(Placement placement) {
  const auto fits = [&](const OpenSlot& slot) {
    bool linked = false;
    for (std::size_t i = 0; i < placement.ranks.size(); ++i) {
      const auto held = slot.tokens.find(placement.ranks[i]);
      if (held == slot.tokens.end()) continue;
      linked = true;
      if (held->second + placement.tokens_of(i) > options_.capacity.value()) return false;
    }
    return linked;
  };
  std::vector<std::size_t> open;
  for (std::size_t s = 0; s < slots_.size(); ++s) {
    if (fits(slots_[s])) open.push_back(s);
  }
  if (open.empty() || dice_.one_in(4)) {
    open = {slots_.size()};
    slots_.emplace_back();
  }
  OpenSlot& slot = slots_[open[static_cast<std::size_t>(
      dice_.between(0, static_cast<std::int64_t>(open.size()) - 1))]];
  for (std::size_t i = 0; i < placement.ranks.size(); ++i) {
    slot.tokens[placement.ranks[i]] += placement.tokens_of(i);
  }
  slot.placements.push_back(std::move(placement));
}

void PlanDraw::number_slots() {
  dice_.shuffle(slots_);
  plan_.num_slots = static_cast<std::int32_t>(slots_.size());
}

void PlanDraw::number_groups() {
  for (std::size_t s = 0; s < slots_.size(); ++s) {
    for (const Placement& placement : slots_[s].placements) {
      if (placement.ranks.size() < 2) continue;
      plan_.groups.push_back(
          {placement.sequence_idx, static_cast<std::int32_t>(s), placement.ranks});
    }
  }
  dice_.shuffle(plan_.groups);
  group_of_sequence_.assign(plan_.sequences.size(), kNoGroup);
  for (std::size_t g = 0; g < plan_.groups.size(); ++g) {
    group_of_sequence_[static_cast<std::size_t>(plan_.groups[g].sequence_idx)] =
        static_cast<std::int32_t>(g);
  }
}

void PlanDraw::fill_micro_batches() {
  // Every rank follows this one order of slots, which their numbers do not show: no cycle.
  std::vector<std::int32_t> order(slots_.size());
  std::iota(order.begin(), order.end(), 0);
  dice_.shuffle(order);
  for (const std::int32_t slot_idx : order) {
    for (const auto& [rank, tokens] : slots_[static_cast<std::size_t>(slot_idx)].tokens) {
      plan_.ranks[static_cast<std::size_t>(rank.value())].push_back(
          draw_micro_batch(slot_idx, rank));
    }
  }
}

MicroBatch PlanDraw::draw_micro_batch(std::int32_t slot_idx, Rank rank) {
  // Blocks of pieces that stay together: one for each whole sequence, one for each group.
  std::vector<std::vector<Piece>> whole;
  std::map<std::int32_t, std::vector<Piece>> shared;  // by group_idx
  for (const Placement& placement : slots_[static_cast<std::size_t>(slot_idx)].placements) {
    const auto place = std::find(placement.ranks.begin(), placement.ranks.end(), rank);
    if (place == placement.ranks.end()) continue;
    const std::int32_t group_idx =
        group_of_sequence_[static_cast<std::size_t>(placement.sequence_idx)];
    std::vector<Piece> pieces;
    for (const TokenRange range :
         placement.ranges[static_cast<std::size_t>(place - placement.ranks.begin())]) {
      pieces.push_back({placement.sequence_idx, group_idx, range});
    }
    if (group_idx == kNoGroup) {
      whole.push_back(std::move(pieces));
    } else {
      shared[group_idx] = std::move(pieces);
    }
  }
  std::vector<std::vector<Piece>> blocks;
  for (auto& [group_idx, pieces] : shared) blocks.push_back(std::move(pieces));
  for (auto& pieces : whole) {
    blocks.insert(blocks.begin() + dice_.between(0, static_cast<std::int64_t>(blocks.size())),
                  std::move(pieces));
  }
  MicroBatch micro_batch;
  micro_batch.slot_idx = slot_idx;
  if (options_.allow_offload)
    micro_batch.offload_ratio = static_cast<double>(dice_.between(0, 8)) / 8;
  for (const auto& block : blocks) {
    micro_batch.pieces.insert(micro_batch.pieces.end(), block.begin(), block.end());
  }
  return micro_batch;
}

}  // namespace

StepPlan random_plan(const RandomPlanOptions& options) {
  WEFT_CHECK(options.num_ranks >= 1 && options.capacity >= Tokens(1) && options.num_layers >= 1,
             "random plan of {} ranks, capacity {}, {} layers", options.num_ranks, options.capacity,
             options.num_layers);
  return PlanDraw(options).draw();
}

std::vector<SequenceSpec> random_sequences(std::uint64_t seed, std::int32_t count,
                                           std::int64_t max_tokens) {
  WEFT_CHECK(count >= 0 && max_tokens >= 1, "{} sequences of up to {} tokens", count, max_tokens);
  Dice dice(seed, "random sequences");
  std::vector<SequenceSpec> sequences;
  for (std::int32_t id = 0; id < count; ++id) {
    SequenceSpec sequence;
    sequence.id = id;
    // A random magnitude first: as many of 1..2 tokens as of the longest.
    const auto magnitudes =
        static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(max_tokens)));
    const std::int64_t limit = std::min(max_tokens, std::int64_t{1} << dice.between(0, magnitudes));
    const std::int64_t tokens = dice.one_in(8) ? limit : dice.between((limit + 1) / 2, limit);
    sequence.tokens = Tokens(tokens);
    switch (dice.between(0, 3)) {
      case 0:
        sequence.num_targets = 0;
        break;
      case 1:
        sequence.num_targets = 1;
        break;
      case 2:
        sequence.num_targets = tokens - 1;
        break;
      default:
        sequence.num_targets = dice.between(0, tokens);
    }
    sequences.push_back(sequence);
  }
  dice.shuffle(sequences);
  return sequences;
}

}  // namespace weft
