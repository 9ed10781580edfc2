#include "comm/activity.h"

#include <algorithm>

namespace weft {

Nanoseconds elapsed_between(CommClock::time_point from, CommClock::time_point to) {
  const auto elapsed = std::chrono::duration_cast<std::chrono::nanoseconds>(to - from);
  return Nanoseconds(std::max<std::int64_t>(elapsed.count(), 0));
}

void PostLog::record(Channel channel, const OpLabel& label, std::span<const SendOp> sends,
                     std::span<const RecvOp> recvs, CommClock::time_point now) {
  Post& post = posts_[num_posts_++ % kCapacity];
  post = Post{};
  post.label = label;
  post.channel = channel;
  post.num_sends = static_cast<std::int32_t>(sends.size());
  post.num_recvs = static_cast<std::int32_t>(recvs.size());
  post.at = now;
  if (!sends.empty()) post.first_send_to = sends.front().to;
  if (!recvs.empty()) post.first_recv_from = recvs.front().from;
  for (const SendOp& send : sends) post.send_bytes += send.bytes;
  for (const RecvOp& recv : recvs) post.recv_bytes += recv.bytes;
}

std::vector<PostSummary> PostLog::newest_first(CommClock::time_point now) const {
  std::vector<PostSummary> summaries;
  const std::size_t oldest = num_posts_ - std::min(num_posts_, kCapacity);
  for (std::size_t i = num_posts_; i > oldest; --i) {
    const Post& post = posts_[(i - 1) % kCapacity];
    summaries.push_back({.label = describe(post.label),
                         .channel = post.channel,
                         .num_sends = post.num_sends,
                         .num_recvs = post.num_recvs,
                         .first_send_to = post.first_send_to,
                         .first_recv_from = post.first_recv_from,
                         .send_bytes = post.send_bytes,
                         .recv_bytes = post.recv_bytes,
                         .age = elapsed_between(post.at, now)});
  }
  return summaries;
}

}  // namespace weft
