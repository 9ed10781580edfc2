#include "train/timed_hops.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "comm/collectives.h"
#include "train/timed_runs.h"

namespace weft {
namespace {

constexpr int kRuns = 15;
constexpr std::size_t kSizes = 4;  // each a quarter of the one before

// Something to compute that needs no memory beyond the nearest cache.
class SpareWork {
 public:
  // Turns that take about so long.
  std::int64_t turns_of(const Communicator& comm, double seconds) {
    constexpr std::int64_t kTrial = 2000;
    const double trial_s = median_seconds_of(comm, 5, [this](int) { run(kTrial); });
    return std::llround(std::ceil(kTrial * seconds / trial_s));
  }
  void run(std::int64_t num_turns) {
    for (std::int64_t turn = 0; turn < num_turns; ++turn) {
      for (float& value : values_) value = 0.5F * value + 1;
    }
    kept_ = values_[static_cast<std::size_t>(num_turns) % values_.size()];
  }

 private:
  std::array<float, 1024> values_{};
  volatile float kept_ = 0;  // so that the loop is not left out
};

// K and V of so many tokens, both ways between two ranks.
class Hop {
 public:
  Hop(Communicator& comm, Tokens tokens, double kv_bytes_per_token)
      : comm_(comm),
        leaving_(
            static_cast<std::size_t>(kv_bytes_per_token * static_cast<double>(tokens.value()))),
        arriving_(leaving_.size()),
        other_(1 - comm.rank().value()) {}

  Handle post(std::span<const std::byte> from, std::span<std::byte> to, int run) {
    const SendOp send{other_, from.data(), Bytes(static_cast<std::int64_t>(from.size()))};
    const RecvOp recv{other_, to.data(), Bytes(static_cast<std::int64_t>(to.size()))};
    return comm_.exchange(Channel::kRing, {.operation = "profile hop", .hop = run}, {&send, 1},
                          {&recv, 1});
  }
  // The mean: a step waits for many hops, so a link that is slow now and then costs it all of that.
  // A run is `num_hops` hops one after another, as in a ring, since a link may carry a little
  // faster than it can go on. The run that brings memory in and connections up is left out.
  double time_alone(std::int64_t num_hops) {
    const auto run = [&](int i) {
      return time(
          [&] {
            for (std::int64_t hop = 0; hop < num_hops; ++hop) post(leaving_, arriving_, i).wait();
          },
          i);
    };
    run(0);
    double sum_s = 0;
    for (int i = 1; i <= kRuns; ++i) sum_s += run(i);
    return sum_s / kRuns / static_cast<double>(num_hops);
  }
  // How much longer work takes with a hop beside it that it could hide than with an empty one: both
  // wait for the other rank's work, and what disturbs a run only lengthens it, so the least of
  // either counts. No more than the hop alone.
  double time_unhidden(double alone_s) {
    if (comm_.transport() == "virtual") return 0;
    SpareWork work;
    const std::int64_t turns = larger(work.turns_of(comm_, 2 * alone_s));
    const auto beside = [&](std::span<const std::byte> from, std::span<std::byte> to, int run) {
      return time(
          [&] {
            Handle hop = post(from, to, run);
            work.run(turns);
            hop.wait();
          },
          run);
    };
    double empty_s = beside({}, {}, 0), full_s = beside(leaving_, arriving_, 0);
    for (int i = 1; i < kRuns; ++i) {
      empty_s = std::min(empty_s, beside({}, {}, i));
      full_s = std::min(full_s, beside(leaving_, arriving_, i));
    }
    return std::clamp(full_s - empty_s, 0.0, alone_s);
  }

 private:
  // Seconds of `work`, which both ranks begin together.
  template <class Work>
  double time(const Work& work, int run) {
    post({}, {}, run).wait();
    return seconds_of(comm_, work);
  }
  // The larger of both ranks' values.
  std::int64_t larger(std::int64_t own) {
    std::int64_t other = 0;
    post(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(&other, 1)), 0).wait();
    return std::max(own, other);
  }

  Communicator& comm_;
  std::vector<std::byte> leaving_, arriving_;
  Rank other_;
};

}  // namespace

std::vector<HopSample> time_hops(Communicator& comm, Tokens capacity, double kv_bytes_per_token) {
  std::vector<HopSample> hops;
  std::int64_t tokens = capacity.value();
  for (std::size_t i = 0; i < kSizes && tokens >= 1; ++i, tokens /= 4) {
    barrier(comm, {.operation = "profile hops"});
    if (comm.rank().value() > 1) continue;
    Hop hop(comm, Tokens(tokens), kv_bytes_per_token);
    const double alone_s = hop.time_alone(capacity.value() / tokens);
    hops.push_back({Tokens(tokens), alone_s, hop.time_unhidden(alone_s)});
  }
  return hops;
}

}  // namespace weft
