#include "comm/mpi/notice.h"

#include "base/binary_io.h"
#include "base/error.h"

namespace weft::mpi_transport {
namespace {

void write_rank(ByteWriter& writer, Rank rank) { writer.write(rank.value()); }
Rank read_rank(ByteReader& reader) { return Rank(reader.read<std::int32_t>()); }
void write_bytes(ByteWriter& writer, Bytes bytes) { writer.write(bytes.value()); }
Bytes read_bytes(ByteReader& reader) { return Bytes(reader.read<std::int64_t>()); }
void write_bool(ByteWriter& writer, bool value) {
  writer.write(static_cast<std::uint8_t>(value ? 1 : 0));
}
bool read_bool(ByteReader& reader) { return reader.read<std::uint8_t>() != 0; }
void write_channel(ByteWriter& writer, Channel channel) {
  writer.write(static_cast<std::uint8_t>(channel));
}
Channel read_channel(ByteReader& reader) {
  return static_cast<Channel>(reader.read<std::uint8_t>());
}

void write_post(ByteWriter& writer, const PostSummary& post) {
  writer.write_string(post.label);
  write_channel(writer, post.channel);
  writer.write(post.num_sends);
  writer.write(post.num_recvs);
  write_rank(writer, post.first_send_to);
  write_rank(writer, post.first_recv_from);
  write_bytes(writer, post.send_bytes);
  write_bytes(writer, post.recv_bytes);
  writer.write(post.age.value());
}

PostSummary read_post(ByteReader& reader) {
  PostSummary post;
  post.label = reader.read_string();
  post.channel = read_channel(reader);
  post.num_sends = reader.read<std::int32_t>();
  post.num_recvs = reader.read<std::int32_t>();
  post.first_send_to = read_rank(reader);
  post.first_recv_from = read_rank(reader);
  post.send_bytes = read_bytes(reader);
  post.recv_bytes = read_bytes(reader);
  post.age = Nanoseconds(reader.read<std::int64_t>());
  return post;
}

void write_activity(ByteWriter& writer, const RankActivity& activity) {
  write_bool(writer, activity.answered);
  write_bool(writer, activity.finished);
  write_bool(writer, activity.waiting);
  writer.write(activity.since.value());
  writer.write_string(activity.wait_label);
  write_channel(writer, activity.wait_channel);
  writer.write(static_cast<std::uint64_t>(activity.outstanding.size()));
  for (const OutstandingSum& sum : activity.outstanding) {
    write_rank(writer, sum.peer);
    write_bool(writer, sum.is_send);
    writer.write(sum.count);
    write_bytes(writer, sum.bytes);
  }
  writer.write_string(activity.dropped);
  writer.write(static_cast<std::uint64_t>(activity.posts.size()));
  for (const PostSummary& post : activity.posts) write_post(writer, post);
}

RankActivity read_activity(ByteReader& reader) {
  RankActivity activity;
  activity.answered = read_bool(reader);
  activity.finished = read_bool(reader);
  activity.waiting = read_bool(reader);
  activity.since = Nanoseconds(reader.read<std::int64_t>());
  activity.wait_label = reader.read_string();
  activity.wait_channel = read_channel(reader);
  constexpr std::size_t kSumBytes = 21;
  activity.outstanding.resize(reader.read_count(kSumBytes));
  for (OutstandingSum& sum : activity.outstanding) {
    sum.peer = read_rank(reader);
    sum.is_send = read_bool(reader);
    sum.count = reader.read<std::int64_t>();
    sum.bytes = read_bytes(reader);
  }
  activity.dropped = reader.read_string();
  constexpr std::size_t kLeastPostBytes = 45;
  activity.posts.resize(reader.read_count(kLeastPostBytes));
  for (PostSummary& post : activity.posts) post = read_post(reader);
  return activity;
}

void write_failure(ByteWriter& writer, const Failure& failure) {
  write_rank(writer, failure.rank);
  writer.write_string(failure.reason);
  write_bool(writer, failure.final);
}

}  // namespace

std::vector<std::byte> encode(const Notice& notice) {
  ByteWriter writer;
  writer.write(static_cast<std::uint8_t>(notice.kind));
  switch (notice.kind) {
    case NoticeKind::kFailing:
    case NoticeKind::kDecision:
      write_failure(writer, notice.failure);
      break;
    case NoticeKind::kFinished:
      for (const std::int64_t count : notice.counts.sends) writer.write(count);
      for (const std::int64_t count : notice.counts.recvs) writer.write(count);
      break;
    case NoticeKind::kReply:
      write_activity(writer, notice.activity);
      [[fallthrough]];
    case NoticeKind::kQuery:
      writer.write(notice.query);
      break;
    case NoticeKind::kLeft:
    case NoticeKind::kEnd:
      break;
  }
  return writer.take();
}

Notice decode(std::span<const std::byte> bytes) {
  ByteReader reader(bytes, "a notice between MPI ranks");
  Notice notice;
  notice.kind = static_cast<NoticeKind>(reader.read<std::uint8_t>());
  switch (notice.kind) {
    case NoticeKind::kFailing:
    case NoticeKind::kDecision:
      notice.failure.rank = read_rank(reader);
      notice.failure.reason = reader.read_string();
      notice.failure.final = read_bool(reader);
      break;
    case NoticeKind::kFinished:
      for (std::int64_t& count : notice.counts.sends) count = reader.read<std::int64_t>();
      for (std::int64_t& count : notice.counts.recvs) count = reader.read<std::int64_t>();
      break;
    case NoticeKind::kReply:
      notice.activity = read_activity(reader);
      [[fallthrough]];
    case NoticeKind::kQuery:
      notice.query = reader.read<std::int64_t>();
      break;
    case NoticeKind::kLeft:
    case NoticeKind::kEnd:
      break;
    default:
      throw_user_error("a notice between MPI ranks has the unknown kind {}",
                       static_cast<int>(notice.kind));
  }
  reader.expect_end();
  return notice;
}

}  // namespace weft::mpi_transport
