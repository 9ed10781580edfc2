#include "comm/wait_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace weft {
namespace {

// A report of a world of hundreds of ranks must stay readable.
constexpr std::size_t kMaxRanksShown = 8;
constexpr std::size_t kMaxPostsShown = 4;

std::string quoted(const std::string& label) { return fmt::format("\"{}\"", label); }
std::string quoted(const OpLabel& label) { return quoted(describe(label)); }

// Peers of what is outstanding, ascending.
std::vector<Rank> awaited_ranks(const std::vector<OutstandingSum>& outstanding) {
  std::vector<Rank> awaited;
  for (const OutstandingSum& sum : outstanding) awaited.push_back(sum.peer);
  std::sort(awaited.begin(), awaited.end());
  awaited.erase(std::unique(awaited.begin(), awaited.end()), awaited.end());
  return awaited;
}

// "2 receives from rank 1 (96 B), 1 send to rank 3 (64 B)"
std::string show_outstanding(const std::vector<OutstandingSum>& outstanding) {
  std::string text;
  for (std::size_t i = 0; i < outstanding.size(); ++i) {
    if (i == 2 * kMaxRanksShown) return text + ", ...";
    const OutstandingSum& sum = outstanding[i];
    text += fmt::format("{}{} {}{} {} rank {} ({} B)", i == 0 ? "" : ", ", sum.count,
                        sum.is_send ? "send" : "receive", sum.count == 1 ? "" : "s",
                        sum.is_send ? "to" : "from", sum.peer, sum.bytes);
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

// "3 sends to rank 1 and others (96 B)"
std::string show_direction(std::int32_t count, bool is_send, Rank first, Bytes bytes) {
  return fmt::format("{} {}{} {} rank {}{} ({} B)", count, is_send ? "send" : "receive",
                     count == 1 ? "" : "s", is_send ? "to" : "from", first,
                     count == 1 ? "" : " and on", bytes);
}

std::string show_post(const PostSummary& post) {
  std::string text =
      fmt::format("{} on channel {}", quoted(post.label), channel_name(post.channel));
  if (post.num_sends > 0) {
    text += ", " + show_direction(post.num_sends, true, post.first_send_to, post.send_bytes);
  }
  if (post.num_recvs > 0) {
    text += ", " + show_direction(post.num_recvs, false, post.first_recv_from, post.recv_bytes);
  }
  return text + fmt::format(", {} ago", format_duration(post.age));
}

std::string show_posts(const std::vector<PostSummary>& posts) {
  if (posts.empty()) return "it has posted nothing yet";
  std::string text = "its last post was " + show_post(posts.front());
  for (std::size_t i = 1; i < std::min(posts.size(), kMaxPostsShown); ++i) {
    text += (i == 1 ? "; before that " : "; ") + show_post(posts[i]);
  }
  return text;
}

std::string show_activity(const RankActivity& activity) {
  if (!activity.answered) {
    return "does not answer: its process or host is stopped, dead or cut off from the network";
  }
  const std::string last = show_posts(activity.posts);
  if (activity.finished) return fmt::format("has finished; {}", last);
  const std::string dropped = activity.dropped.empty() ? "" : " (" + activity.dropped + ")";
  if (activity.waiting) {
    return fmt::format("has been waiting {} in {} on channel {} for {}; {}{}",
                       format_duration(activity.since), quoted(activity.wait_label),
                       channel_name(activity.wait_channel),
                       show_ranks(awaited_ranks(activity.outstanding)), last, dropped);
  }
  if (activity.posts.empty()) return fmt::format("is outside comm; {}{}", last, dropped);
  return fmt::format("has been outside comm for {}; {}{}", format_duration(activity.since), last,
                     dropped);
}

using Activities = std::vector<std::pair<Rank, RankActivity>>;

// Waits of one rank for others; of the chain of waits that a report follows.
struct Wait {
  Rank waiter;
  std::string label;
  std::vector<Rank> awaited;
};

// A rank that has posted `wait`'s operation too and waits in another one by now has left something
// of it out. Nothing if there is none.
std::string show_rank_that_went_on(const Activities& chain, const std::vector<Wait>& waits) {
  for (const Wait& wait : waits) {
    for (const auto& [rank, activity] : chain) {
      const bool awaited =
          std::find(wait.awaited.begin(), wait.awaited.end(), rank) != wait.awaited.end();
      if (!awaited || !activity.waiting || activity.wait_label == wait.label) continue;
      const bool posted =
          std::any_of(activity.posts.begin(), activity.posts.end(),
                      [&](const PostSummary& post) { return post.label == wait.label; });
      if (!posted) continue;
      return fmt::format(
          "Look at rank {}: it has gone on from {}, in which rank {} still waits "
          "for it.",
          rank, quoted(wait.label), wait.waiter);
    }
  }
  return {};
}

// Which rank a reader should look at; a rank that waits is only a link of the chain.
std::string show_verdict(const Activities& chain, const std::vector<Wait>& waits) {
  std::vector<Rank> silent, finished, outside;
  for (const auto& [rank, activity] : chain) {
    if (!activity.answered) {
      silent.push_back(rank);
    } else if (activity.finished) {
      finished.push_back(rank);
    } else if (!activity.waiting) {
      outside.push_back(rank);
    }
  }
  if (!silent.empty()) return fmt::format("Look at {}: no answer.", show_ranks(silent));
  if (!finished.empty()) {
    return fmt::format("Look at {}: finished while others still wait.", show_ranks(finished));
  }
  if (!outside.empty()) {
    return fmt::format(
        "Look at {}: outside comm while others wait; if that really needs longer, raise the wait "
        "limit.",
        show_ranks(outside));
  }
  if (std::string text = show_rank_that_went_on(chain, waits); !text.empty()) return text;
  return "All of these wait for one another: compare what each waits for with what its peers "
         "posted last.";
}

}  // namespace

std::string timeout_report(const OpenTransfer& transfer, Nanoseconds waited,
                           std::chrono::nanoseconds wait_limit,
                           const std::function<RankActivity(Rank)>& activity_of) {
  std::vector<Rank> awaited = awaited_ranks(transfer.outstanding);
  std::string text = fmt::format(
      "comm: rank {} waited {} (limit {}) for {} in {} on channel {}; outstanding: {}.",
      transfer.rank, format_duration(waited), format_duration(Nanoseconds(wait_limit.count())),
      show_ranks(awaited), quoted(transfer.label), channel_name(transfer.channel),
      show_outstanding(transfer.outstanding));
  Activities chain;
  std::vector<Wait> waits{{transfer.rank, describe(transfer.label), awaited}};
  for (std::size_t i = 0; i < awaited.size(); ++i) {
    if (i == kMaxRanksShown) {
      text += fmt::format("\n  {} more ranks are involved.", awaited.size() - i);
      break;
    }
    if (awaited[i] == transfer.rank) {
      text += fmt::format("\n  Rank {} is this rank itself.", awaited[i]);
      continue;
    }
    const auto& [rank, activity] = chain.emplace_back(awaited[i], activity_of(awaited[i]));
    text += fmt::format("\n  Rank {} {}.", rank, show_activity(activity));
    if (!activity.waiting) continue;
    waits.push_back({rank, activity.wait_label, awaited_ranks(activity.outstanding)});
    for (const Rank next : waits.back().awaited) {
      const bool known = std::find(awaited.begin(), awaited.end(), next) != awaited.end();
      if (!known && next != transfer.rank) awaited.push_back(next);
    }
  }
  chain.emplace_back(transfer.rank, activity_of(transfer.rank));
  return text + "\n  " + show_verdict(chain, waits);
}

std::string finished_report(const OpenTransfer& transfer, Rank peer, bool is_send, Bytes bytes) {
  return fmt::format(
      "comm: rank {} waits for rank {} in {} on channel {} ({} of {} B), but rank {} has already "
      "finished. Both ranks must follow the same plan to its end.",
      transfer.rank, peer, quoted(transfer.label), channel_name(transfer.channel),
      is_send ? "a send" : "a receive", bytes, peer);
}

std::string mismatch_report(Channel channel, const MessageSide& send, const MessageSide& recv) {
  return fmt::format(
      "comm: ranks {} and {} disagree about a message on channel {}: rank {} sends {} B for {}, "
      "rank {} expects {} B for {}. All ranks must follow the same plan in the same order.",
      send.rank, recv.rank, channel_name(channel), send.rank, send.bytes, quoted(send.label),
      recv.rank, recv.bytes, quoted(recv.label));
}

std::string dropped_report(const OpenTransfer& transfer) {
  return fmt::format(
      "comm: rank {} dropped the handle of {} on channel {} without wait(); outstanding: {}",
      transfer.rank, quoted(transfer.label), channel_name(transfer.channel),
      show_outstanding(transfer.outstanding));
}

}  // namespace weft
