#include "train/phase_clock.h"

#include <gtest/gtest.h>

#include <thread>

#include "comm/collectives.h"
#include "comm/thread/thread_world.h"

namespace weft {
namespace {

using namespace std::chrono_literals;

TEST(PhaseClock, PhasesAddUpToTheStep) {
  run_thread_ranks({.num_ranks = 1}, [](Communicator& comm) {
    PhaseClock clock(comm);
    clock.start(Phase::kPlan);
    for (const Phase phase :
         {Phase::kData, Phase::kForward, Phase::kBackward, Phase::kData, Phase::kReduce}) {
      std::this_thread::sleep_for(2ms);
      clock.enter(phase);
    }
    std::this_thread::sleep_for(2ms);
    const StepTimes times = clock.stop();
    double sum = 0;
    for (const double phase_s : times.seconds) sum += phase_s;
    EXPECT_NEAR(sum, times.step_s, 1e-9);
    EXPECT_GE(times[Phase::kData], 4e-3);  // entered twice
    EXPECT_EQ(times[Phase::kOptimizer], 0);
  });
}

TEST(PhaseClock, TimeBlockedOnRingsCountsAsExchangeAndNotAsWork) {
  run_thread_ranks({.num_ranks = 2}, [](Communicator& comm) {
    PhaseClock clock(comm);
    clock.start(Phase::kForward);
    std::byte byte{};
    const Rank other(1 - comm.rank().value());
    if (comm.rank() == Rank(0)) {
      const RecvOp recv{.from = other, .data = &byte, .bytes = 1_B};
      comm.exchange(Channel::kRing, {.operation = "test"}, {}, {&recv, 1}).wait();
    } else {
      std::this_thread::sleep_for(50ms);
      const SendOp send{.to = other, .data = &byte, .bytes = 1_B};
      comm.exchange(Channel::kRing, {.operation = "test"}, {&send, 1}, {}).wait();
    }
    const StepTimes times = clock.stop();
    if (comm.rank() == Rank(0)) {
      EXPECT_GT(times[Phase::kExchange], 30e-3);
      EXPECT_LT(times[Phase::kForward], times[Phase::kExchange]);
      EXPECT_LT(times.busy_s, 30e-3);
    } else {
      EXPECT_GT(times[Phase::kForward], 40e-3);  // sleeping is not waiting for a message
    }
  });
}

}  // namespace
}  // namespace weft
