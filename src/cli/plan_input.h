// The input of weft plan: flags -> the cluster, the cost and the sequences of a step.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/planner.h"

namespace CLI {
class App;
}

namespace weft {

struct PlanFlags {
  std::string lengths;
  std::string corpus;
  std::string workload;
  std::string context;  // of the workload; "": ranks * capacity
  std::int32_t num_ranks = 0;
  std::int32_t ranks_per_node = 8;
  std::string speeds;                    // "LOW:HIGH", drawn from the seed; "": all 1
  std::string memories;                  // "LOW:HIGH", drawn from the seed; "": all 1
  std::vector<std::string> rank_speeds;  // "RANK=SPEED"
  std::vector<std::int32_t> dead;        // ranks that get nothing
  std::int32_t pipeline_stages = 1;
  std::int32_t virtual_stages = 1;
  bool offload = false;
  int num_threads = 1;
  std::string capacity;
  std::string max_context;          // "": the longest sequence (static), ranks * capacity (corpus)
  std::string global_batch_tokens;  // "": everything (lengths only)
  std::string over_long = "error";
  std::string strategy = "hdp";
  std::string weighting = "token";
  std::string cost;  // "": the reference cost
  std::int64_t step = 0;
  std::uint64_t seed = 0;
};

// Where the sequences of a step come from; shared with weft simulate. Returns the group of the
// sources, of which one is needed.
CLI::App* add_sequence_flags(CLI::App& plan, PlanFlags& flags);
// Those, and the ranks, what they hold and what they cost.
void add_input_flags(CLI::App& plan, PlanFlags& flags);

// Everything but the sequences. UserError names the flag.
PlanRequest request_without_sequences(const PlanFlags& flags);

// A count of tokens such as "8K"; `otherwise` for no text. UserError names `what`.
Tokens parse_tokens(const std::string& text, std::string_view what, std::int64_t otherwise);

// UserError for a file of lengths, a corpus or a policy of it that is wrong for any cluster.
void check_sequence_source(const PlanFlags& flags);

// The sequences of one step, from whichever source the flags name.
std::vector<SequenceSpec> sequences_of_step(const PlanFlags& flags, const PlanRequest& request,
                                            std::int64_t step);
// The same for a simulation: UserError when there is none.
std::vector<SequenceSpec> some_sequences_of_step(const PlanFlags& flags, const PlanRequest& request,
                                                 std::int64_t step);

}  // namespace weft
