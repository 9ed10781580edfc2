#include "comm/thread/wait_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/units.h"

namespace weft::thread_transport {
namespace {

// A report of a world of hundreds of ranks must stay readable.
constexpr std::size_t kMaxRanksShown = 8;

std::string show(const OpLabel& label) { return fmt::format("\"{}\"", describe(label)); }

std::string show_elapsed(Clock::time_point from, Clock::time_point to) {
  const auto elapsed = std::chrono::duration_cast<std::chrono::nanoseconds>(to - from);
  return format_duration(Nanoseconds(std::max<std::int64_t>(elapsed.count(), 0)));
}

bool outstanding(const PostedOp& op) {
  return op.state == OpState::kQueued || op.state == OpState::kUnposted;
}

// Peers of what is outstanding, ascending.
std::vector<Rank> awaited_ranks(const PendingTransfer& transfer) {
  std::vector<Rank> awaited;
  for (const PostedOp& op : transfer.ops) {
    if (outstanding(op)) awaited.push_back(op.peer);
  }
  std::sort(awaited.begin(), awaited.end());
  awaited.erase(std::unique(awaited.begin(), awaited.end()), awaited.end());
  return awaited;
}

// "2 receives from rank 1 (96 B), 1 send to rank 3 (64 B)"
std::string show_outstanding(const PendingTransfer& transfer) {
  std::map<std::pair<Rank, bool>, std::pair<std::int64_t, Bytes>> sums;
  for (const PostedOp& op : transfer.ops) {
    if (!outstanding(op)) continue;
    auto& [count, bytes] = sums[{op.peer, op.is_send}];
    ++count;
    bytes += op.bytes;
  }
  std::string text;
  std::size_t shown = 0;
  for (const auto& [key, sum] : sums) {
    if (shown++ == 2 * kMaxRanksShown) return text + ", ...";
    const auto& [peer, is_send] = key;
    text += fmt::format("{}{} {}{} {} rank {} ({} B)", text.empty() ? "" : ", ", sum.first,
                        is_send ? "send" : "receive", sum.first == 1 ? "" : "s",
                        is_send ? "to" : "from", peer, sum.second);
  }
  return text;
}

std::string show_ranks(const std::vector<Rank>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i == kMaxRanksShown) return text + ", ...";
    text += fmt::format("{}{}", i == 0 ? "" : ", ", ranks[i]);
  }
  return (ranks.size() == 1 ? "rank " : "ranks ") + text;
}

std::string show_activity(const RankState& state, Clock::time_point now) {
  const std::string last =
      state.last_label ? fmt::format("its last post was {} on channel {}", show(*state.last_label),
                                     channel_name(state.last_channel))
                       : std::string("it has posted nothing yet");
  if (state.finished) return fmt::format("has finished; {}", last);
  const std::string dropped = state.dropped.empty() ? "" : " (" + state.dropped + ")";
  if (state.waiting != nullptr) {
    return fmt::format("has been waiting {} in {} on channel {} for {}; {}{}",
                       show_elapsed(state.since, now), show(state.waiting->label),
                       channel_name(state.waiting->channel),
                       show_ranks(awaited_ranks(*state.waiting)), last, dropped);
  }
  if (!state.last_label) return fmt::format("is outside comm; {}{}", last, dropped);
  return fmt::format("has been outside comm for {}; {}{}", show_elapsed(state.since, now), last,
                     dropped);
}

}  // namespace

std::string timeout_report(std::span<const RankState> ranks, const PendingTransfer& transfer,
                           std::chrono::nanoseconds wait_limit, Clock::time_point now) {
  const auto state_of = [&](Rank rank) -> const RankState& {
    return ranks[static_cast<std::size_t>(rank.value())];
  };
  std::vector<Rank> chain = awaited_ranks(transfer);
  std::string text =
      fmt::format("comm: rank {} waited {} (limit {}) for {} in {} on channel {}; outstanding: {}.",
                  transfer.rank, show_elapsed(state_of(transfer.rank).since, now),
                  format_duration(Nanoseconds(wait_limit.count())), show_ranks(chain),
                  show(transfer.label), channel_name(transfer.channel), show_outstanding(transfer));
  for (std::size_t i = 0; i < chain.size(); ++i) {
    if (i == kMaxRanksShown) {
      text += fmt::format(" ({} more ranks are involved.)", chain.size() - i);
      break;
    }
    if (chain[i] == transfer.rank) {
      text += fmt::format(" Rank {} is this rank itself.", chain[i]);
      continue;
    }
    const RankState& state = state_of(chain[i]);
    text += fmt::format(" Rank {} {}.", chain[i], show_activity(state, now));
    if (state.waiting == nullptr) continue;
    for (const Rank next : awaited_ranks(*state.waiting)) {
      const bool known = std::find(chain.begin(), chain.end(), next) != chain.end();
      if (!known && next != transfer.rank) chain.push_back(next);
    }
  }
  return text +
         " Look at the rank that is outside comm or has finished; if it really needs longer, "
         "raise the wait limit.";
}

std::string finished_report(const PostedOp& op) {
  return fmt::format(
      "comm: rank {} waits for rank {} in {} on channel {} ({} of {} B), but rank {} has already "
      "finished. Both ranks must follow the same plan to its end.",
      op.owner->rank, op.peer, show(op.owner->label), channel_name(op.owner->channel),
      op.is_send ? "a send" : "a receive", op.bytes, op.peer);
}

std::string mismatch_report(const PostedOp& a, const PostedOp& b) {
  const PostedOp& send = a.is_send ? a : b;
  const PostedOp& recv = a.is_send ? b : a;
  return fmt::format(
      "comm: ranks {} and {} disagree about a message on channel {}: rank {} sends {} B for {}, "
      "rank {} expects {} B for {}. All ranks must follow the same plan in the same order.",
      send.owner->rank, recv.owner->rank, channel_name(send.owner->channel), send.owner->rank,
      send.bytes, show(send.owner->label), recv.owner->rank, recv.bytes, show(recv.owner->label));
}

std::string dropped_report(const PendingTransfer& transfer) {
  return fmt::format(
      "comm: rank {} dropped the handle of {} on channel {} without wait(); "
      "outstanding: {}",
      transfer.rank, show(transfer.label), channel_name(transfer.channel),
      show_outstanding(transfer));
}

}  // namespace weft::thread_transport
