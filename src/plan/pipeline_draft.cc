#include "plan/pipeline_draft.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "cost/micro_batch_time.h"
#include "plan/plan_builder.h"
#include "plan/sequence_time.h"

namespace weft {
namespace {

// More ranks than this many times the fewest never shorten a sequence by much: hops add up.
constexpr std::int32_t kMostWidening = 8;

}  // namespace

// Neighbours that have the same groups behind them: a group on some of them starts on all at once.
struct PipelineDraft::Block {
  std::int64_t groups_end = 0;
  std::int64_t largest_group = 0;
  std::int32_t num_ranks = 0;
  RankInterval ranks;
};

PipelineDraft::PipelineDraft(const PlanRequest& request, const StepPlan& header,
                             std::int32_t num_like)
    : request_(request),
      header_(header),
      costs_(request.cost, request.cluster),
      num_stages_(request.cluster.pipeline_stages),
      num_chunks_(request.cluster.virtual_stages),
      num_like_(num_like),
      speed_(request.cluster.speed_of(Rank(0))),
      fixed_ns_(stage_ns(all_layers(request.cost, request.cost.fixed_ns / speed_))) {
  const CostModel& cost = request.cost;
  whole_ns_.reserve(header.sequences.size());
  for (const SequenceSpec& sequence : header.sequences) {
    const auto work = static_cast<double>(causal_work({0, sequence.tokens.value()}));
    const double ns = cost.attention_ns_per_pair * work +
                      cost.linear_ns_per_token * static_cast<double>(sequence.tokens.value());
    whole_ns_.push_back(stage_ns(all_layers(cost, ns / speed_)));
  }
}

std::vector<GangTask> PipelineDraft::tasks(Nanoseconds longest_pass) const {
  std::vector<GangTask> tasks;
  const auto limit =
      Nanoseconds(static_cast<std::int64_t>(static_cast<double>(longest_pass.value()) * speed_));
  for (std::size_t i = 0; i < header_.sequences.size(); ++i) {
    const Tokens tokens = header_.sequences[i].tokens;
    const std::int32_t least = smallest_degree(tokens, header_.capacity);
    const auto most = static_cast<std::int32_t>(
        std::min<std::int64_t>({num_like_, tokens.value(), kMostWidening * least}));
    const std::int32_t degree = degree_within(costs_, tokens, least, most, limit);
    if (degree == 1) {
      if (sequence_time(request_.cost, tokens, 1, 1.0) <= limit) break;  // so are all shorter ones
      continue;
    }
    tasks.push_back({.sequence_idx = static_cast<std::int32_t>(i),
                     .degree = degree,
                     .duration = sequence_time(costs_, tokens, degree, speed_).value(),
                     .between = sequence_time(costs_.between(), tokens, degree, speed_).value()});
  }
  std::stable_sort(tasks.begin(), tasks.end(), [](const GangTask& a, const GangTask& b) {
    return std::tuple(a.degree, a.duration) > std::tuple(b.degree, b.duration);
  });
  return tasks;
}

RankInterval PipelineDraft::place_in(const Block& block, std::int32_t degree) const {
  const std::int32_t first = block.ranks.begin;
  if (!costs_.has_places() || degree > costs_.node_ranks()) return {first, first + degree};
  const std::int32_t width = request_.cluster.ranks_per_node;
  const std::int32_t next = (first / width + 1) * width;
  if (first + degree <= next || next + degree > block.ranks.end) return {first, first + degree};
  return {next, next + degree};
}

std::int64_t PipelineDraft::stage_on(const GangTask& task, RankInterval ranks) const {
  const bool is_inside =
      request_.cluster.node_of(Rank(ranks.begin)) == request_.cluster.node_of(Rank(ranks.end - 1));
  const std::int64_t ns = costs_.has_places() && !is_inside ? task.between : task.duration;
  return stage_ns(Nanoseconds(ns));
}

// Where the task ends within the target, the block that is then fullest, so that long groups follow
// long groups; else the one where it ends first. Nothing is wider than the task before, so one
// block at least has its size.
std::size_t PipelineDraft::choose_block(const std::vector<Block>& blocks, const GangTask& task,
                                        std::int64_t target) const {
  std::size_t chosen = blocks.size();
  std::tuple<bool, std::int64_t, std::int32_t> best;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    if (blocks[b].num_ranks < task.degree) continue;
    const std::int64_t stage = stage_on(task, place_in(blocks[b], task.degree));
    const std::int64_t end =
        blocks[b].groups_end + stage + bubble(std::max(blocks[b].largest_group, stage));
    const std::tuple key(end > target, end > target ? end : -end, blocks[b].num_ranks);
    if (chosen < blocks.size() && key >= best) continue;
    chosen = b;
    best = key;
  }
  return chosen;
}

void PipelineDraft::place_in_blocks(const std::vector<GangTask>& tasks, std::int64_t target,
                                    Draft& draft) const {
  std::vector<Block> blocks{{.num_ranks = num_like_, .ranks = {0, num_like_}}};
  for (const GangTask& task : tasks) {
    const std::size_t chosen = choose_block(blocks, task, target);
    WEFT_CHECK(chosen < blocks.size(), "no {} ranks side by side", task.degree);
    const Block before = blocks[chosen];
    Block members = before;
    members.ranks = place_in(before, task.degree);
    members.num_ranks = task.degree;
    const std::int64_t stage = stage_on(task, members.ranks);
    members.groups_end += stage;
    members.largest_group = std::max(members.largest_group, stage);
    PlacedGroup& group = draft.groups.emplace_back(PlacedGroup{task.sequence_idx, {}});
    for (std::int32_t rank = members.ranks.begin; rank < members.ranks.end; ++rank)
      group.ranks.emplace_back(rank);
    blocks[chosen].ranks.begin = members.ranks.end;
    blocks[chosen].num_ranks = before.ranks.end - members.ranks.end;
    if (blocks[chosen].num_ranks == 0) {
      blocks[chosen] = members;
    } else {
      blocks.push_back(members);
    }
    if (before.ranks.begin < members.ranks.begin) {
      Block rest = before;
      rest.ranks.end = members.ranks.begin;
      rest.num_ranks = rest.ranks.end - rest.ranks.begin;
      blocks.push_back(rest);
    }
  }
  for (const Block& block : blocks) {
    for (std::int32_t rank = block.ranks.begin; rank < block.ranks.end; ++rank) {
      Lane& lane = draft.lanes[static_cast<std::size_t>(rank)];
      lane.groups_end = block.groups_end;
      lane.largest_group = block.largest_group;
    }
  }
}

// Ranks stand in the order of their ends. A group takes neighbours there: where it ends within the
// target those that wait least for the last of them, of like ones the fullest; else those with
// which it ends first.
void PipelineDraft::place_on_levels(const std::vector<GangTask>& tasks, std::int64_t target,
                                    Draft& draft) const {
  std::vector<std::int32_t> order(static_cast<std::size_t>(num_like_));
  std::iota(order.begin(), order.end(), 0);
  const auto lane = [&](std::int32_t rank) -> Lane& {
    return draft.lanes[static_cast<std::size_t>(rank)];
  };
  const auto is_before = [&](std::int32_t a, std::int32_t b) {
    return std::tuple(lane(a).groups_end, a) < std::tuple(lane(b).groups_end, b);
  };
  for (const GangTask& task : tasks) {
    const auto width = static_cast<std::size_t>(task.degree);
    const std::int64_t stage =
        stage_ns(Nanoseconds(costs_.has_places() ? task.between : task.duration));
    std::size_t chosen = 0;
    std::tuple<bool, std::int64_t, std::int64_t> best;
    std::int64_t sum = 0;
    for (std::size_t last = 0; last < order.size(); ++last) {
      sum += lane(order[last]).groups_end;
      if (last + 1 < width) continue;
      const std::size_t first = last + 1 - width;
      const std::int64_t start = lane(order[last]).groups_end;
      // The longest that any of them has run; the last one's, as long ones come first.
      const std::int64_t largest = std::max(lane(order[last]).largest_group, stage);
      const std::int64_t end = start + stage + bubble(largest);
      const std::int64_t waits = start * task.degree - sum;
      const std::tuple key(end > target, end > target ? end : waits, -start);
      if (first == 0 || key < best) {
        chosen = first;
        best = key;
      }
      sum -= lane(order[first]).groups_end;
    }
    const auto begin = order.begin() + static_cast<std::ptrdiff_t>(chosen);
    const auto end = begin + static_cast<std::ptrdiff_t>(width);
    const std::int64_t start = lane(*(end - 1)).groups_end;
    PlacedGroup& group = draft.groups.emplace_back(PlacedGroup{task.sequence_idx, {}});
    std::vector<std::int32_t> members(begin, end);
    std::sort(members.begin(), members.end());
    for (const std::int32_t rank : members) {
      lane(rank).groups_end = start + stage;
      lane(rank).largest_group = std::max(lane(rank).largest_group, stage);
      group.ranks.emplace_back(rank);
    }
    // They are alike now, and come after what ends earlier.
    const auto after = std::upper_bound(end, order.end(), members.front(), is_before);
    std::copy(members.begin(), members.end(), begin);
    std::rotate(begin, end, after);
  }
}

std::int64_t PipelineDraft::num_packs(const Lane& lane) const {
  const std::int64_t least = ranks_needed(lane.tokens, lane.capacity);
  if (lane.whole == 0) return least;
  const auto most = static_cast<std::int64_t>(lane.sequences.size());
  const auto whole = static_cast<double>(lane.whole);
  // (whole / n + fixed) * (n + (p - 1) / V) is least at this n.
  const double balanced =
      fixed_ns_ > 0
          ? std::sqrt((num_stages_ - 1) * whole / num_chunks_ / static_cast<double>(fixed_ns_))
          : static_cast<double>(most);
  // As large as a group that is there anyway, they cost no more bubble.
  const std::int64_t beside =
      std::max(lane.largest_group, lane.longest_whole + fixed_ns_) - fixed_ns_;
  const double enough = beside > 0 ? std::ceil(whole / static_cast<double>(beside)) : balanced;
  return std::clamp(static_cast<std::int64_t>(std::min(balanced, enough)),
                    std::max<std::int64_t>(1, least), std::max(most, least));
}

std::int64_t PipelineDraft::end_of(const Lane& lane) const {
  const std::int64_t packs = num_packs(lane);
  std::int64_t largest = lane.largest_group;
  if (packs > 0) {
    largest = std::max({largest, lane.longest_whole + fixed_ns_, lane.whole / packs + fixed_ns_});
  }
  const std::int64_t end = lane.groups_end + lane.whole + packs * fixed_ns_ + bubble(largest);
  if (lane.slowness == 1) return end;
  constexpr double kForever = 1e18;  // of speeds a million times slower
  return static_cast<std::int64_t>(std::min(kForever, lane.slowness * static_cast<double>(end)));
}

void PipelineDraft::add_whole(std::size_t sequence, Lane& lane) const {
  lane.longest_whole = std::max(lane.longest_whole, whole_ns_[sequence]);
  lane.whole += whole_ns_[sequence];
  lane.tokens += header_.sequences[sequence].tokens;
  lane.sequences.push_back(static_cast<std::int32_t>(sequence));
}

std::int64_t PipelineDraft::end_with(std::size_t sequence, Lane& lane) const {
  const auto [longest, whole, tokens] = std::tuple(lane.longest_whole, lane.whole, lane.tokens);
  add_whole(sequence, lane);
  const std::int64_t end = end_of(lane) + lane.lateness;
  lane.sequences.pop_back();
  std::tie(lane.longest_whole, lane.whole, lane.tokens) = std::tuple(longest, whole, tokens);
  return end;
}

// To the like rank that ends first; to the odd one that does, where it ends no later with it than
// that rank: a slow rank that is still empty must not get one of the longest.
void PipelineDraft::deal_whole(std::span<const std::int64_t> lateness, Draft& draft) const {
  std::vector<Lane>& lanes = draft.lanes;
  std::vector<bool> is_shared(header_.sequences.size());
  for (const PlacedGroup& group : draft.groups)
    is_shared[static_cast<std::size_t>(group.sequence_idx)] = true;
  using Entry = std::pair<std::int64_t, std::size_t>;  // end, rank
  using Ends = std::priority_queue<Entry, std::vector<Entry>, std::greater<>>;
  Ends like;
  Ends odd;
  const auto ends_of = [&](std::size_t r) -> Ends& {
    return r < static_cast<std::size_t>(num_like_) ? like : odd;
  };
  for (std::size_t r = 0; r < lanes.size(); ++r) {
    if (!lateness.empty()) lanes[r].lateness = lateness[r];
    ends_of(r).push({end_of(lanes[r]) + lanes[r].lateness, r});
  }
  for (std::size_t i = 0; i < header_.sequences.size(); ++i) {
    if (is_shared[i]) continue;
    std::size_t r = like.top().second;
    if (!odd.empty()) {
      const std::size_t other = odd.top().second;
      if (lanes[other].capacity >= header_.sequences[i].tokens &&
          end_with(i, lanes[other]) <= end_with(i, lanes[r]))
        r = other;
    }
    ends_of(r).pop();
    add_whole(i, lanes[r]);
    ends_of(r).push({end_of(lanes[r]) + lanes[r].lateness, r});
  }
}

// Longest first into the pack with the least time that has room; the largest pack runs first.
void PipelineDraft::append_packs(std::int32_t rank, const Lane& lane, StepPlan& plan) const {
  struct Pack {
    std::int64_t ns = 0;
    Tokens tokens;
    std::vector<std::int32_t> sequences;
  };
  std::vector<Pack> packs(static_cast<std::size_t>(num_packs(lane)));
  for (const std::int32_t idx : lane.sequences) {
    const auto i = static_cast<std::size_t>(idx);
    const Tokens tokens = header_.sequences[i].tokens;
    Pack* into = nullptr;
    for (Pack& pack : packs) {
      if (pack.tokens + tokens > lane.capacity) continue;
      if (into == nullptr || pack.ns < into->ns) into = &pack;
    }
    if (into == nullptr) into = &packs.emplace_back();
    into->ns += whole_ns_[i];
    into->tokens += tokens;
    into->sequences.push_back(idx);
  }
  std::stable_sort(packs.begin(), packs.end(),
                   [](const Pack& a, const Pack& b) { return a.ns > b.ns; });
  PlanBuilder builder(plan);
  for (const Pack& pack : packs) {
    if (pack.sequences.empty()) continue;
    builder.open_slot();
    for (const std::int32_t idx : pack.sequences) builder.add_whole(idx, Rank(rank));
  }
}

PipelineDraft::Draft PipelineDraft::make(const std::vector<GangTask>& tasks, Placing placing,
                                         std::int64_t target,
                                         std::span<const std::int64_t> lateness) const {
  Draft draft;
  draft.lanes.resize(static_cast<std::size_t>(header_.num_ranks));
  for (std::int32_t r = 0; r < header_.num_ranks; ++r) {
    Lane& lane = draft.lanes[static_cast<std::size_t>(r)];
    lane.capacity = request_.cluster.capacity_of(Rank(r), header_.capacity);
    lane.slowness = speed_ / request_.cluster.speed_of(Rank(r));
  }
  if (placing == Placing::kInBlocks) {
    place_in_blocks(tasks, target, draft);
  } else {
    place_on_levels(tasks, target, draft);
  }
  deal_whole(lateness, draft);
  for (const Lane& lane : draft.lanes) {
    draft.ends.push_back(end_of(lane));
    draft.latest = std::max(draft.latest, draft.ends.back() + lane.lateness);
  }
  return draft;
}

StepPlan PipelineDraft::plan_of(const Draft& draft) const {
  StepPlan plan = header_;
  PlanBuilder builder(plan);
  for (const PlacedGroup& group : draft.groups) {
    builder.open_slot();
    builder.add_shared(group.sequence_idx, group.ranks);
  }
  for (std::size_t r = 0; r < draft.lanes.size(); ++r)
    append_packs(static_cast<std::int32_t>(r), draft.lanes[r], plan);
  return plan;
}

}  // namespace weft
