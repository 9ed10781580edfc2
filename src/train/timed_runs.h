// Work timed by a rank's own clock.
#pragma once

#include <chrono>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "train/timed_model.h"

namespace weft {

template <class Work>  // work()
double seconds_of(const Communicator& comm, const Work& work) {
  const auto start = comm.now();
  work();
  return std::chrono::duration<double>(comm.now() - start).count();
}

template <class Run>  // run(run_idx)
double median_seconds_of(const Communicator& comm, int num_runs, const Run& run) {
  std::vector<double> runs_s;
  for (int i = 0; i < num_runs; ++i) runs_s.push_back(seconds_of(comm, [&] { run(i); }));
  return median(std::move(runs_s));
}

}  // namespace weft
