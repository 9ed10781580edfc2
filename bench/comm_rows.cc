#include "bench/comm_rows.h"

#include <array>
#include <chrono>
#include <cstring>

#include "base/error.h"
#include "comm/collectives.h"

namespace weft::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kReduceBytes = 4 << 20;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct PingPong {
  std::string name;
  std::int64_t bytes = 0;
  int round_trips = 1;  // of one sample
  int samples = 1;
};

const std::array<PingPong, 4> kPingPongs{
    PingPong{"8B", 8, 500, 15}, PingPong{"64KiB", 64 << 10, 100, 15},
    PingPong{"1MiB", 1 << 20, 20, 15}, PingPong{"64MiB", 64 << 20, 1, 7}};

std::string exchange_name(std::string_view transport, const PingPong& one) {
  return fmt::format("exchange/{}/{}", transport, one.name);
}

std::string reduce_name(std::string_view transport) {
  return fmt::format("all_reduce/{}/4MiB", transport);
}

// Seconds of one message each way, one after the other; ranks 0 and 1.
double ping_pong(Communicator& comm, const PingPong& one, std::vector<std::byte>& buffer) {
  const Rank peer(1 - comm.rank().value());
  const OpLabel label{.operation = "bench exchange"};
  const std::array send{SendOp{.to = peer, .data = buffer.data(), .bytes = Bytes(one.bytes)}};
  const std::array receive{RecvOp{.from = peer, .data = buffer.data(), .bytes = Bytes(one.bytes)}};
  const auto start = Clock::now();
  for (int i = 0; i < one.round_trips; ++i) {
    const bool sends_first = comm.rank() == Rank(0);
    if (sends_first) comm.exchange(Channel::kRing, label, send, {}).wait();
    comm.exchange(Channel::kRing, label, {}, receive).wait();
    if (!sends_first) comm.exchange(Channel::kRing, label, send, {}).wait();
  }
  return seconds_since(start) / one.round_trips;
}

// Bytes/s of as many copies of the same size by one thread.
double copy_rate(const PingPong& one, std::vector<std::byte>& from, std::vector<std::byte>& to) {
  const auto start = Clock::now();
  for (int i = 0; i < 2 * one.round_trips; ++i) {
    std::memcpy(to.data(), from.data(), static_cast<std::size_t>(one.bytes));
    asm volatile("" : : "r"(to.data()) : "memory");
  }
  return 2.0 * one.round_trips * static_cast<double>(one.bytes) / seconds_since(start);
}

// Small messages in microseconds one way, larger ones in GB/s against a plain copy.
Row exchange_row(Communicator& comm, const PingPong& one) {
  const bool is_latency = one.bytes < 1024;
  std::vector<std::byte> buffer(static_cast<std::size_t>(one.bytes), std::byte{1});
  std::vector<std::byte> copy(buffer);
  Row row;
  row.name = exchange_name(comm.transport(), one);
  row.unit = is_latency ? "us" : "GB/s";
  row.better = is_latency ? Better::kLower : Better::kHigher;
  if (!is_latency) row.limit_name = "memcpy of one thread";
  for (int i = -1; i < one.samples; ++i) {  // the first does not count
    double limit = 0;
    if (!is_latency && comm.rank() == Rank(0)) limit = 1e-9 * copy_rate(one, buffer, copy);
    barrier(comm, {.operation = "bench barrier"});
    const double one_way_s = comm.rank().value() <= 1 ? ping_pong(comm, one, buffer) / 2 : 1;
    if (i < 0) continue;
    if (!is_latency) row.limits.push_back(limit);
    row.samples.push_back(is_latency ? 1e6 * one_way_s
                                     : 1e-9 * static_cast<double>(one.bytes) / one_way_s);
  }
  return row;
}

// Milliseconds of one all_reduce. Limit: the bytes that its formula has this rank send, at the
// speed of a plain copy. bytes_ratio: bytes counted by the communicator over the formula's, 1 when
// exact.
Row reduce_row(Communicator& comm) {
  constexpr int kSamples = 15;
  constexpr int kCalls = 5;
  constexpr auto kCount = kReduceBytes / static_cast<std::int64_t>(sizeof(float));
  const std::int64_t num_ranks = comm.size();
  const std::int64_t part = even_part(kCount, num_ranks, comm.rank().value()).size();
  const auto formula =
      static_cast<double>(((kCount - part) + (num_ranks - 1) * part) * sizeof(float));
  const PingPong block{"", kReduceBytes, 1, 1};
  std::vector<float> values(kCount, 0.0F);
  std::vector<std::byte> from(kReduceBytes, std::byte{1});
  std::vector<std::byte> to(from);
  const auto sent = [&] {
    return static_cast<double>(comm.stats(Channel::kReduce).bytes_sent.value());
  };
  Row row;
  row.name = reduce_name(comm.transport());
  row.unit = "ms";
  row.better = Better::kLower;
  row.limit_name = "bytes of the formula by memcpy";
  double bytes = 0;
  for (int i = -1; i < kSamples; ++i) {
    const double limit = comm.rank() == Rank(0) ? 1e3 * formula / copy_rate(block, from, to) : 0;
    barrier(comm, {.operation = "bench barrier"});
    const double before = sent();
    const auto start = Clock::now();
    for (int call = 0; call < kCalls; ++call)
      all_reduce(comm, std::span(values), ReduceOp::kSum, {.operation = "bench all_reduce"});
    const double elapsed_s = seconds_since(start);
    if (i < 0) continue;
    bytes += sent() - before;
    row.limits.push_back(limit);
    row.samples.push_back(1e3 * elapsed_s / kCalls);
  }
  row.counters = {{"ranks", static_cast<double>(num_ranks)},
                  {"bytes_sent", bytes / (kSamples * kCalls)},
                  {"bytes_ratio", bytes / (kSamples * kCalls * formula)}};
  return row;
}

}  // namespace

std::vector<std::string> comm_row_names(std::string_view transport) {
  std::vector<std::string> names;
  for (const PingPong& one : kPingPongs) names.push_back(exchange_name(transport, one));
  names.push_back(reduce_name(transport));
  return names;
}

void run_comm_rows(Communicator& comm, const Selection& selection) {
  const auto print = [&](const Row& row) {
    if (comm.rank() == Rank(0)) print_row(row);
  };
  for (const PingPong& one : kPingPongs) {
    if (selection.wants(exchange_name(comm.transport(), one))) print(exchange_row(comm, one));
  }
  if (selection.wants(reduce_name(comm.transport()))) print(reduce_row(comm));
}

}  // namespace weft::bench
