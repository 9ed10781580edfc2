#include "loader/packed_micro_batch.h"

#include <algorithm>
#include <span>

#include "base/error.h"

namespace weft {
namespace {

// The rows of one piece inside the micro-batch's tensors.
struct PieceColumns {
  std::span<std::int64_t> tokens;
  std::span<std::int64_t> positions;
  std::span<std::int64_t> targets;
  std::span<double> target_weights;
};

// Fills the rows of one piece and returns its number of targets. `weight` is w_t / W of its
// targets.
std::int64_t fill_piece(const SequenceSpec& sequence, TokenRange range, double weight,
                        const SequenceSource& source, std::vector<TokenId>& scratch,
                        const PieceColumns& rows) {
  scratch.resize(static_cast<std::size_t>(range.size()));
  source.read_tokens(sequence.id, range, scratch);
  std::copy(scratch.begin(), scratch.end(), rows.tokens.begin());
  source.read_targets(sequence.id, range, scratch);
  std::int64_t num_targets = 0;
  for (std::size_t i = 0; i < scratch.size(); ++i) {
    const bool has_target = scratch[i] != kNoTarget;
    rows.positions[i] = range.begin + static_cast<std::int64_t>(i);
    rows.targets[i] = scratch[i];
    rows.target_weights[i] = has_target ? weight : 0;
    num_targets += has_target;
  }
  // Only a whole sequence can be counted here; a piece of a shared one can at least not exceed it.
  const bool whole = range.size() == sequence.tokens.value();
  WEFT_USER_CHECK(
      whole ? num_targets == sequence.num_targets : num_targets <= sequence.num_targets,
      "loader: tokens {} of sequence {} have {} targets, but the plan counts {} in the whole "
      "sequence; the data is not what the plan was made for: plan again from this corpus",
      range, sequence.id, num_targets, sequence.num_targets);
  return num_targets;
}

}  // namespace

PackedMicroBatch pack_micro_batch(const PlanSlice& slice, const MicroBatch& micro_batch,
                                  const SequenceSource& source) {
  const std::int64_t num_rows = micro_batch.tokens().value();  // T
  PackedMicroBatch batch;
  batch.tokens = at::empty({num_rows}, at::kLong);
  batch.positions = at::empty({num_rows}, at::kLong);
  batch.targets = at::empty({num_rows}, at::kLong);
  batch.target_weights = at::empty({num_rows}, at::kDouble);
  std::vector<TokenId> scratch;
  std::int64_t row = 0;
  for (const Piece& piece : micro_batch.pieces) {
    const SequenceSpec& sequence = slice.sequences.at(static_cast<std::size_t>(piece.sequence_idx));
    const auto num_piece_rows = static_cast<std::size_t>(piece.range.size());
    const double weight = sequence.num_targets == 0 ? 0
                                                    : target_weight(sequence, slice.weighting) /
                                                          static_cast<double>(slice.total_weight);
    const PieceColumns rows{
        {batch.tokens.data_ptr<std::int64_t>() + row, num_piece_rows},
        {batch.positions.data_ptr<std::int64_t>() + row, num_piece_rows},
        {batch.targets.data_ptr<std::int64_t>() + row, num_piece_rows},
        {batch.target_weights.data_ptr<double>() + row, num_piece_rows},
    };
    batch.num_targets += fill_piece(sequence, piece.range, weight, source, scratch, rows);
    row += piece.range.size();
  }
  return batch;
}

}  // namespace weft
