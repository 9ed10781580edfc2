// Measures how much of a 64 MiB exchange hides behind compute, and what the checking mode costs.
// Two ranks exchange with each other. docs/comm.md shows a table of its output.
//
// Usage: comm_overlap thread | mpirun -n 2 comm_overlap mpi [MONITOR_INTERVAL_US]
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "comm/collectives.h"
#include "comm/mpi/session.h"
#include "comm/thread/thread_world.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
using Buffer = std::vector<std::byte>;

constexpr std::int64_t kLargeBytes = 64 << 20;
constexpr int kRepeats = 9;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// Arithmetic in registers, so that it does not compete for memory bandwidth.
void compute(double seconds) {
  const auto start = Clock::now();
  volatile double sink = 0;
  while (seconds_since(start) < seconds) {
    double x = sink + 1.0;
    for (int i = 0; i < 2000; ++i) x = x * 0.999999 + 1e-6;
    sink = x;
  }
}

Handle swap(Communicator& comm, const Buffer& outgoing, Buffer& incoming) {
  const Rank peer(1 - comm.rank().value());
  const Bytes bytes(static_cast<std::int64_t>(outgoing.size()));
  return comm.exchange(Channel::kRing, {.operation = "swap"},
                       std::array{SendOp{peer, outgoing.data(), bytes}},
                       std::array{RecvOp{peer, incoming.data(), bytes}});
}

// Seconds of one exchange of `bytes` with `work` seconds of compute between post and wait.
double time_swap(Communicator& comm, std::int64_t bytes, double work) {
  const Buffer outgoing(static_cast<std::size_t>(bytes), std::byte{1});
  Buffer incoming(outgoing.size());
  std::vector<double> times;
  for (int i = 0; i < kRepeats; ++i) {
    barrier(comm, {.operation = "ready", .step = i});
    const auto start = Clock::now();
    Handle handle = swap(comm, outgoing, incoming);
    if (work > 0) compute(work);
    handle.wait();
    times.push_back(seconds_since(start));
  }
  return median(times);
}

// Seconds of one of many exchanges in a row.
double time_stream(Communicator& comm, std::int64_t bytes, int count) {
  const Buffer outgoing(static_cast<std::size_t>(bytes), std::byte{1});
  Buffer incoming(outgoing.size());
  barrier(comm, {.operation = "ready"});
  const auto start = Clock::now();
  for (int i = 0; i < count; ++i) swap(comm, outgoing, incoming).wait();
  return seconds_since(start) / count;
}

void measure_overlap(Communicator& comm, std::string_view name) {
  const double alone = time_swap(comm, kLargeBytes, 0);
  const double work = 1.5 * alone;
  const double together = time_swap(comm, kLargeBytes, work);
  const double hidden = std::clamp((alone + work - together) / alone, 0.0, 1.0);
  if (comm.rank() != Rank(0)) return;
  fmt::print(
      "{}: 64 MiB each way {:.1f} ms ({:.2f} GB/s), compute {:.1f} ms, both {:.1f} ms, "
      "hidden {:.0f} %\n",
      name, alone * 1e3, static_cast<double>(kLargeBytes) / alone / 1e9, work * 1e3, together * 1e3,
      hidden * 100);
}

void measure_checking(Communicator& comm, std::string_view name) {
  const double small = time_stream(comm, 8, 20'000);
  const double large = time_stream(comm, 1 << 20, 500);
  if (comm.rank() != Rank(0)) return;
  fmt::print("{}: 8 B {:.2f} us, 1 MiB {:.2f} GB/s each way\n", name, small * 1e6,
             static_cast<double>(1 << 20) / large / 1e9);
}

int measure_mpi(int interval_us) {
  mpi_transport::Session session;
  WEFT_USER_CHECK(session.size() == 2, "start it with mpirun -n 2; there are {} ranks",
                  session.size());
  for (const bool check : {true, false}) {
    const mpi_transport::WorldSettings settings{
        .check_messages = check, .monitor_interval = std::chrono::microseconds(interval_us)};
    const std::string name =
        fmt::format("mpi, checking {}, monitor every {} us", check ? "on" : "off", interval_us);
    run_world(session, settings, [&](Communicator& comm) {
      if (check) measure_overlap(comm, name);
      measure_checking(comm, name);
    });
  }
  return 0;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  const std::string_view transport = argc > 1 ? argv[1] : "";
  try {
    if (transport == "mpi") {
      int interval_us = 1000;
      if (argc > 2)
        std::from_chars(argv[2], argv[2] + std::string_view(argv[2]).size(), interval_us);
      return weft::measure_mpi(interval_us);
    }
    if (transport != "thread") {
      std::fputs("usage: comm_overlap thread | mpirun -n 2 comm_overlap mpi [INTERVAL_US]\n",
                 stderr);
      return 2;
    }
    weft::run_thread_ranks({.num_ranks = 2}, [](weft::Communicator& comm) {
      weft::measure_overlap(comm, "thread");
      weft::measure_checking(comm, "thread");
    });
    return 0;
  } catch (const std::exception& error) {
    weft::log_error("{}", error.what());
    return 1;
  }
}
