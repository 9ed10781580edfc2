// The input of weft simulate: flags -> a scenario, what to plan for it, and the points of a sweep.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/plan_input.h"
#include "sim/scenario.h"

namespace weft {

struct SimulateFlags {
  PlanFlags sequences;  // sources of lengths, --context, --global-batch-tokens, --step, --seed
  std::string model;
  std::string cluster;
  std::string devices;  // one of these two
  std::string ranks;
  std::int32_t ranks_per_node = 0;  // with a cost file alone; 0: all
  std::string tensor = "1";
  std::string pipeline = "1";
  std::string virtual_stages = "1";
  std::string capacity;  // "": the largest that fits
  std::string recompute = "none";
  std::string dtype = "bfloat16";
  std::string link_scale = "1";  // of the links' bandwidths
  std::string cost;              // "": from the shapes
  std::string strategy = "all";
  bool offload = false;
  std::vector<std::string> sweep;  // "KEY=VALUE,VALUE,..."
  std::int64_t num_batches = 0;    // 0: 1, or as many as --paper takes
};

struct SimulationCase {
  Scenario scenario;
  Tokens capacity = {};
  Tokens largest_capacity = {};  // that fits beside the states; 0: not even they do
  bool is_capacity_given = false;
};

void add_simulate_flags(CLI::App& simulate, SimulateFlags& flags);

// UserError names the flag.
SimulationCase simulation_case(const SimulateFlags& flags);

// The flags of every point of the sweep, all combinations, in order; one point without a sweep.
// UserError for a value that is wrong by itself, before any point is simulated; simulation_case()
// finds those that do not go together.
struct SweepPoint {
  std::vector<std::string> values;  // of sweep_keys()
  SimulateFlags flags;
};
std::vector<SweepPoint> sweep_points(const SimulateFlags& flags);
std::vector<std::string> sweep_keys(const SimulateFlags& flags);

}  // namespace weft
