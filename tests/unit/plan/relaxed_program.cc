#include "tests/unit/plan/relaxed_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/error.h"

namespace weft::testing {
namespace {

constexpr double kNanosecondsPerMillisecond = 1e6;

// One sequence at one degree; ns of one layer forward.
struct Choice {
  double alone = 0;    // no member ends earlier
  double exposed = 0;  // what it adds to all ranks' exposed exchange; negative: it hides others'
};

Choice choice_of(const RelaxedStep& step, Tokens tokens, std::int32_t degree) {
  const CostModel& cost = *step.cost;
  const auto s = static_cast<double>(tokens.value());
  const double d = degree;
  const double pairs = s * (s + 1) / 2;
  const double attention = cost.attention_ns_per_pair * pairs;
  const double rest = cost.linear_ns_per_token * s + cost.fixed_ns * d;
  const auto largest = static_cast<double>((tokens.value() + degree - 1) / degree);
  const double hops = (d - 1) * (cost.hop_fixed_ns + cost.hop_ns_per_token * largest);
  const double per_token =
      cost.hop_ns_per_token + cost.hop_fixed_ns / static_cast<double>(step.capacity.value());
  return {.alone = std::max((rest + attention) / d, (rest + attention / d) / d + hops),
          .exposed = s * per_token * (d - 1) - attention * (1 - 1 / d)};
}

}  // namespace

std::string relaxed_program(const RelaxedStep& step) {
  std::string alone;    // a row for each sequence: T is at least its time
  std::string one;      // a row for each sequence: one degree
  std::string exposed;  // one row: X is at least the exposed exchange of all
  std::string binaries;
  double compute = 0;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < step.sequences.size(); ++i) {
    const Tokens tokens = step.sequences[i].tokens;
    const auto s = static_cast<double>(tokens.value());
    compute +=
        step.cost->linear_ns_per_token * s + step.cost->attention_ns_per_pair * (s * (s + 1) / 2);
    total += tokens.value();
    alone += fmt::format(" alone{}: T", i);
    one += fmt::format(" one{}:", i);
    for (std::int32_t d = 1; d <= step.num_ranks; ++d) {
      if (step.capacity * d < tokens || tokens < Tokens(d)) continue;
      const Choice choice = choice_of(step, tokens, d);
      alone += fmt::format("\n  {:+.9f} x{}_{}", -choice.alone / kNanosecondsPerMillisecond, i, d);
      exposed +=
          fmt::format("\n  {:+.9f} x{}_{}", -choice.exposed / kNanosecondsPerMillisecond, i, d);
      one += fmt::format("\n  + x{}_{}", i, d);
      binaries += fmt::format(" x{}_{}\n", i, d);
    }
    alone += " >= 0\n";
    one += " = 1\n";
  }
  const std::int64_t least = (total - 1) / step.capacity.value() + 1;
  // With k ranks in use each has a micro-batch: the mean is least when all are.
  compute +=
      step.cost->fixed_ns * static_cast<double>(std::max<std::int64_t>(step.num_ranks, least));
  return fmt::format(
      "Minimize\n obj: T\nSubject To\n work: {} T - X >= {:.9f}\n exposed: X{} >= 0\n{}{}Bounds\n "
      "T >= 0\n "
      "X >= 0\nBinary\n{}End\n",
      step.num_ranks, compute / kNanosecondsPerMillisecond, exposed, alone, one, binaries);
}

bool has_solver() { return std::system("command -v glpsol >/dev/null 2>&1") == 0; }

double solve_relaxed(const RelaxedStep& step, const std::filesystem::path& folder) {
  const std::filesystem::path program = folder / "step.lp";
  const std::filesystem::path solution = folder / "step.solution";
  std::ofstream(program) << relaxed_program(step);
  std::filesystem::remove(solution);
  const std::string command =
      fmt::format("glpsol --lp '{}' --write '{}' --tmlim 120 >'{}' 2>&1", program.string(),
                  solution.string(), (folder / "step.log").string());
  WEFT_CHECK(std::system(command.c_str()) == 0, "the solver failed: {}", command);
  // "s mip ROWS COLUMNS o OBJECTIVE": o = optimal.
  std::ifstream in(solution);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string kind, what, rows, columns, status;
    double objective = 0;
    if (!(words >> kind) || kind != "s") continue;
    words >> what >> rows >> columns >> status >> objective;
    WEFT_CHECK(words && what == "mip" && status == "o", "the solver says '{}'", line);
    return objective * kNanosecondsPerMillisecond * step.cost->num_layers *
           (1 + step.cost->backward_ratio);
  }
  throw_internal_error("no solution in '{}'", solution.string());
}

}  // namespace weft::testing
