#include "comm/collectives.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <type_traits>

#include "base/error.h"

namespace weft {
namespace {

// What reduce_scatter may hold of other ranks' values at a time (see the header).
constexpr std::int64_t kTemporaryBytes = 4 << 20;

template <class T>
T add(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;  // wraps instead of being undefined
    return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  } else {
    return a + b;
  }
}

// The earlier of two equal values, and the first NaN, stay: so -0.0 and NaN bits do not depend on
// chance.
template <class T>
bool is_nan(T value) {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(value);
  return false;
}
template <class T>
T least(T a, T b) {
  return !is_nan(a) && (b < a || is_nan(b)) ? b : a;
}
template <class T>
T greatest(T a, T b) {
  return !is_nan(a) && (b > a || is_nan(b)) ? b : a;
}

// accumulated[i] = accumulated[i] op values[i]
template <class T>
void accumulate(std::span<T> accumulated, std::span<const T> values, ReduceOp op) {
  const auto apply = [&](auto combine) {
    for (std::size_t i = 0; i < accumulated.size(); ++i) {
      accumulated[i] = combine(accumulated[i], values[i]);
    }
  };
  switch (op) {
    case ReduceOp::kSum:
      return apply([](T a, T b) { return add(a, b); });
    case ReduceOp::kMin:
      return apply([](T a, T b) { return least(a, b); });
    case ReduceOp::kMax:
      return apply([](T a, T b) { return greatest(a, b); });
  }
  throw_internal_error("comm: unknown ReduceOp {}", static_cast<int>(op));
}

template <class T>
std::span<T> slice(std::span<T> values, TokenRange range) {
  return values.subspan(static_cast<std::size_t>(range.begin),
                        static_cast<std::size_t>(range.size()));
}

template <class T>
SendOp send_to(std::int32_t rank, std::span<T> values) {
  return {Rank(rank), values.data(), Bytes(static_cast<std::int64_t>(values.size_bytes()))};
}

template <class T>
RecvOp recv_from(std::int32_t rank, std::span<T> values) {
  return {Rank(rank), values.data(), Bytes(static_cast<std::int64_t>(values.size_bytes()))};
}

// Elements [round * chunk, (round + 1) * chunk) of a part; empty beyond its end.
TokenRange round_of(TokenRange part, std::int64_t round, std::int64_t chunk) {
  const std::int64_t begin = std::min(part.begin + round * chunk, part.end);
  return {begin, std::min(begin + chunk, part.end)};
}

}  // namespace

TokenRange even_part(std::int64_t count, std::int64_t num_parts, std::int64_t index) {
  WEFT_CHECK(count >= 0 && index >= 0 && index < num_parts, "part {} of {} of {} elements", index,
             num_parts, count);
  const std::int64_t size = count / num_parts;
  const std::int64_t num_longer = count % num_parts;
  const std::int64_t begin = index * size + std::min(index, num_longer);
  return {begin, begin + size + (index < num_longer ? 1 : 0)};
}

template <class T>
void reduce_scatter(Communicator& comm, std::span<T> values, ReduceOp op, const OpLabel& label) {
  const std::int32_t num_ranks = comm.size();
  if (num_ranks == 1) return;
  const std::int32_t me = comm.rank().value();
  const auto part = [&](std::int32_t rank) {
    return even_part(static_cast<std::int64_t>(values.size()), num_ranks, rank);
  };
  const std::int64_t element_bytes = sizeof(T);
  const std::int64_t chunk =
      std::max<std::int64_t>(1, kTemporaryBytes / element_bytes / (num_ranks - 1));
  // Part 0 is the longest. One round at least: empty messages also prove that all ranks agree on
  // the size.
  const std::int64_t num_rounds = std::max<std::int64_t>(1, (part(0).size() + chunk - 1) / chunk);

  const auto stride = static_cast<std::size_t>(std::min(chunk, part(me).size()));
  const std::size_t num_received = stride * static_cast<std::size_t>(num_ranks - 1);
  const auto received = std::make_unique_for_overwrite<T[]>(num_received);
  std::vector<std::span<T>> by_rank(static_cast<std::size_t>(num_ranks));
  std::vector<SendOp> sends;
  std::vector<RecvOp> recvs;
  for (std::int64_t round = 0; round < num_rounds; ++round) {
    sends.clear();
    recvs.clear();
    const std::span<T> mine = slice(values, round_of(part(me), round, chunk));
    std::size_t offset = 0;
    for (std::int32_t rank = 0; rank < num_ranks; ++rank) {
      auto& from = by_rank[static_cast<std::size_t>(rank)];
      if (rank == me) {
        from = mine;
        continue;
      }
      from = std::span<T>(received.get(), num_received).subspan(offset, mine.size());
      offset += stride;
      sends.push_back(send_to(rank, slice(values, round_of(part(rank), round, chunk))));
      recvs.push_back(recv_from(rank, from));
    }
    comm.exchange(Channel::kReduce, label, sends, recvs).wait();
    for (std::size_t rank = 1; rank < by_rank.size(); ++rank) {
      accumulate<T>(by_rank[0], by_rank[rank], op);
    }
    if (me != 0) std::copy(by_rank[0].begin(), by_rank[0].end(), mine.begin());
  }
}

template <class T>
void all_gather(Communicator& comm, std::span<T> values, const OpLabel& label) {
  const std::int32_t num_ranks = comm.size();
  if (num_ranks == 1) return;
  const std::int32_t me = comm.rank().value();
  const auto part = [&](std::int32_t rank) {
    return slice(values, even_part(static_cast<std::int64_t>(values.size()), num_ranks, rank));
  };
  std::vector<SendOp> sends;
  std::vector<RecvOp> recvs;
  for (std::int32_t rank = 0; rank < num_ranks; ++rank) {
    if (rank == me) continue;
    sends.push_back(send_to(rank, part(me)));
    recvs.push_back(recv_from(rank, part(rank)));
  }
  comm.exchange(Channel::kReduce, label, sends, recvs).wait();
}

template <class T>
void all_reduce(Communicator& comm, std::span<T> values, ReduceOp op, const OpLabel& label) {
  reduce_scatter(comm, values, op, label);
  all_gather(comm, values, label);
}

template <class T>
std::vector<T> gather_all(Communicator& comm, std::span<const T> mine, const OpLabel& label) {
  const std::int32_t num_ranks = comm.size();
  std::vector<T> all(mine.size() * static_cast<std::size_t>(num_ranks));
  std::vector<SendOp> sends;
  std::vector<RecvOp> recvs;
  for (std::int32_t rank = 0; rank < num_ranks; ++rank) {
    const auto place =
        std::span<T>(all).subspan(static_cast<std::size_t>(rank) * mine.size(), mine.size());
    if (rank == comm.rank().value()) {
      std::copy(mine.begin(), mine.end(), place.begin());
      continue;
    }
    sends.push_back(send_to(rank, mine));
    recvs.push_back(recv_from(rank, place));
  }
  if (num_ranks > 1) comm.exchange(Channel::kControl, label, sends, recvs).wait();
  return all;
}

void broadcast(Communicator& comm, Rank root, std::span<std::byte> data, const OpLabel& label) {
  if (comm.size() == 1) return;
  if (comm.rank() != root) {
    const std::array recvs{recv_from(root.value(), data)};
    comm.exchange(Channel::kControl, label, {}, recvs).wait();
    return;
  }
  std::vector<SendOp> sends;
  for (std::int32_t rank = 0; rank < comm.size(); ++rank) {
    if (rank != root.value()) sends.push_back(send_to(rank, data));
  }
  comm.exchange(Channel::kControl, label, sends, {}).wait();
}

std::vector<std::byte> scatter_messages(Communicator& comm, Rank root,
                                        std::span<const std::vector<std::byte>> messages,
                                        const OpLabel& label) {
  if (comm.rank() != root) {
    std::int64_t size = 0;
    const std::array size_recv{recv_from(root.value(), std::span(&size, 1))};
    comm.exchange(Channel::kControl, label, {}, size_recv).wait();
    std::vector<std::byte> message(static_cast<std::size_t>(size));
    const std::array payload_recv{recv_from(root.value(), std::span(message))};
    comm.exchange(Channel::kControl, label, {}, payload_recv).wait();
    return message;
  }
  WEFT_CHECK_EQ(messages.size(), static_cast<std::size_t>(comm.size()),
                "\"{}\": one message for each rank is needed", describe(label));
  const auto own = static_cast<std::size_t>(root.value());
  std::vector<std::int64_t> sizes(messages.size());
  std::vector<SendOp> sends;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (i == own) continue;
    const auto rank = static_cast<std::int32_t>(i);
    sizes[i] = static_cast<std::int64_t>(messages[i].size());
    sends.push_back(send_to(rank, std::span(&sizes[i], 1)));
    sends.push_back(send_to(rank, std::span(messages[i])));
  }
  if (!sends.empty()) comm.exchange(Channel::kControl, label, sends, {}).wait();
  return messages[own];
}

void barrier(Communicator& comm, const OpLabel& label) {
  gather_all(comm, std::span<const std::byte>(), label);
}

#define WEFT_INSTANTIATE_COLLECTIVES(T)                                                \
  template void all_reduce(Communicator&, std::span<T>, ReduceOp, const OpLabel&);     \
  template void reduce_scatter(Communicator&, std::span<T>, ReduceOp, const OpLabel&); \
  template void all_gather(Communicator&, std::span<T>, const OpLabel&);               \
  template std::vector<T> gather_all(Communicator&, std::span<const T>, const OpLabel&);
WEFT_INSTANTIATE_COLLECTIVES(float)
WEFT_INSTANTIATE_COLLECTIVES(double)
WEFT_INSTANTIATE_COLLECTIVES(std::int64_t)
#undef WEFT_INSTANTIATE_COLLECTIVES

}  // namespace weft
