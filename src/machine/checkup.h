// Verdicts on a machine: what was found, whether Weft runs well with it, and what to do if not. A
// pure function of MachineFacts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "machine/machine_facts.h"

namespace weft {

enum class Verdict : std::uint8_t { kOk = 0, kWarning = 1, kProblem = 2 };
std::string_view to_string(Verdict verdict);  // "ok", "warning", "problem"

struct Check {
  std::string name = {};
  std::string found = {};
  Verdict verdict = Verdict::kOk;
  std::string advice = {};                                  // empty exactly when the verdict is ok
  std::vector<std::pair<std::string, double>> values = {};  // the numbers behind `found`, unit last
};

// One check for each of: cores, simd, fma peak, blas, memory, memory bandwidth, /dev/shm, disk,
// mpi, weft-engine.
std::vector<Check> check_machine(const MachineFacts& facts);

Verdict worst_verdict(const std::vector<Check>& checks);

}  // namespace weft
