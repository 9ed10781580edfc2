// The suite that every transport passes. A transport's test program compiles comm_conformance.cc
// and instantiates the suite with a way to run N ranks:
//
//   INSTANTIATE_TEST_SUITE_P(Thread, CommConformance, testing::Values(TransportUnderTest{...}),
//   transport_name);
//
// Each rank checks what it received inside its own body, and no body shares data with another
// rank's, so a transport whose ranks are processes runs the same bodies: its `run` is called on
// every process.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace weft {

struct TransportUnderTest {
  std::string name;
  std::vector<std::int32_t> rank_counts;  // the world sizes that `run` can make here
  // Runs body on num_ranks ranks with this wait limit, returns when all have ended, rethrows the
  // root cause.
  std::function<void(std::int32_t num_ranks, std::chrono::nanoseconds wait_limit,
                     const std::function<void(Communicator&)>& body)>
      run;
};

inline void PrintTo(const TransportUnderTest& transport, std::ostream* out) {
  *out << transport.name;
}

class CommConformance : public testing::TestWithParam<TransportUnderTest> {
 protected:
  // Runs body on every world size of the transport.
  void run_all_sizes(const std::function<void(Communicator&)>& body) const;
  // Runs body on exactly num_ranks ranks if the transport can, and skips the test if not.
  void run_on(std::int32_t num_ranks, const std::function<void(Communicator&)>& body) const;
};

}  // namespace weft
