// Where the time of one step went: every rank's operations as a Chrome trace
// (chrome://tracing, Perfetto), and their sums by kind as a table.
//
// Times of one rank are exact to its clock; those of different processes count from each rank's own
// start of the step. docs/training.md "Where a step's time goes".
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "base/operation_trace.h"
#include "comm/communicator.h"

namespace weft {

struct KindTotals {
  double own_s = 0;
  double flops = 0;
  double flops_s = 0;  // own time of the operations that count their FLOPs
  std::int64_t count = 0;
};

// What one rank did in the traced step.
struct RankTrace {
  std::array<KindTotals, kOperationKindNames.size()> kinds;
  double step_s = 0;   // from the first micro-batch's packing to the end of the update
  std::string events;  // JSON objects of the Chrome trace, joined by commas
};

RankTrace summarise(std::span<const Operation> operations, double step_s, Rank rank);

// Every rank's trace, in rank order, on every rank.
std::vector<RankTrace> gather_traces(Communicator& comm, const RankTrace& mine, std::int64_t step);

// {"traceEvents": [...]}
std::string chrome_trace(std::span<const RankTrace> ranks, std::int64_t step);

// A line per kind: seconds (mean over ranks), share of the step, GFLOP/s of one rank and their
// share of its peak. The last line is what lies between operations.
std::string breakdown(std::span<const RankTrace> ranks, double peak_flops_per_s_of_a_rank);

}  // namespace weft
