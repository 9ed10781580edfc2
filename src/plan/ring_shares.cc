#include "plan/ring_shares.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"

namespace weft {
namespace {

bool is_shared(const MicroBatch& micro_batch) {
  return std::any_of(micro_batch.pieces.begin(), micro_batch.pieces.end(),
                     [](const Piece& piece) { return piece.group_idx != kNoGroup; });
}

std::vector<const MicroBatch*> shared_micro_batches(const StepPlan& plan) {
  std::vector<const MicroBatch*> shared;
  for (const auto& micro_batches : plan.ranks) {
    for (const MicroBatch& micro_batch : micro_batches)
      if (is_shared(micro_batch)) shared.push_back(&micro_batch);
  }
  return shared;
}

std::vector<Tokens> find_largest_members(const StepPlan& plan,
                                         std::span<const MicroBatch* const> shared) {
  std::vector<Tokens> largest(plan.groups.size());
  for (const MicroBatch* micro_batch : shared) {
    const std::vector<Piece>& pieces = micro_batch->pieces;
    for (std::size_t p = 0; p < pieces.size();) {
      const std::int32_t group_idx = pieces[p].group_idx;
      std::int64_t tokens = 0;
      const std::size_t first = p;
      while (p < pieces.size() && pieces[p].group_idx == group_idx &&
             (p == first || group_idx != kNoGroup)) {
        tokens += pieces[p++].range.size();
      }
      if (group_idx == kNoGroup) continue;
      Tokens& member = largest[static_cast<std::size_t>(group_idx)];
      member = std::max(member, Tokens(tokens));
    }
  }
  return largest;
}

}  // namespace

RingShares::RingShares(const StepPlan& plan) : RingShares(plan, uniform_cluster(1, 1)) {}

RingShares::RingShares(const StepPlan& plan, const ClusterSpec& cluster)
    : RingShares(plan, cluster, shared_micro_batches(plan)) {}

RingShares::RingShares(const StepPlan& plan, const ClusterSpec& cluster,
                       std::span<const MicroBatch* const> shared)
    : plan_(plan),
      largest_members_(find_largest_members(plan, shared)),
      ring_of_group_(plan.groups.size()) {
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    const bool same = g > 0 && plan.groups[g - 1].slot_idx == plan.groups[g].slot_idx &&
                      plan.groups[g - 1].ranks == plan.groups[g].ranks;
    if (!same) {
      group_of_ring_.push_back(static_cast<std::int32_t>(g));
      is_in_node_.push_back(cluster.share_node(plan.groups[g].ranks));
      ++num_rings_;
    }
    ring_of_group_[g] = num_rings_ - 1;
  }
}

std::span<const Rank> RingShares::ranks_of(std::int32_t ring) const {
  const std::int32_t group = group_of_ring_[static_cast<std::size_t>(ring)];
  return plan_.groups[static_cast<std::size_t>(group)].ranks;
}

std::int32_t RingShares::slot_of(std::int32_t ring) const {
  const std::int32_t group = group_of_ring_[static_cast<std::size_t>(ring)];
  return plan_.groups[static_cast<std::size_t>(group)].slot_idx;
}

// Groups ascend and the pieces of a group lie together (validate), but whole sequences may stand
// between the groups of one ring.
void RingShares::collect(const MicroBatch& micro_batch, std::vector<RingShare>& shares,
                         std::vector<std::int32_t>* rings) const {
  shares.clear();
  if (rings != nullptr) rings->clear();
  std::size_t ring_share = 0;  // of previous_ring
  std::int32_t previous_ring = kNoRing;
  std::int32_t previous_group = kNoGroup;
  for (const Piece& piece : micro_batch.pieces) {
    std::size_t mine = shares.size();
    std::int32_t ring = kNoRing;
    if (piece.group_idx != kNoGroup) {
      const auto g = static_cast<std::size_t>(piece.group_idx);
      ring = ring_of_group_[g];
      if (ring == previous_ring) mine = ring_share;
      if (mine == shares.size()) shares.emplace_back();
      if (piece.group_idx != previous_group) {
        shares[mine].degree = static_cast<std::int32_t>(plan_.groups[g].ranks.size());
        shares[mine].largest_member += largest_members_[g];
        shares[mine].is_in_node = is_in_node(ring);
      }
      ring_share = mine;
      previous_ring = ring;
      previous_group = piece.group_idx;
    } else {
      shares.emplace_back();
    }
    if (rings != nullptr && rings->size() < shares.size()) rings->push_back(ring);
    add_checked(shares[mine].work, causal_work(piece.range), "work of a ring");
    shares[mine].tokens += Tokens(piece.range.size());
  }
}

void refuse_sum(std::string_view what) {
  throw_user_error("evaluate: the {} exceeds 2^63; plan fewer or shorter sequences", what);
}

}  // namespace weft
