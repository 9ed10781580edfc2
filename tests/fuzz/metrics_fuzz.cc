// metrics.jsonl as weft report reads it.
#include "report/run_view.h"
#include "tests/fuzz/fuzz_input.h"

namespace weft::fuzz {

void run_target(Input input) {
  const auto metrics = value_or_refusal([&] { return parse_metrics(as_text(input), "input"); });
  if (!metrics) return;
  RunView run;
  run.metrics = *metrics;
  for (const auto& column : metrics->columns)
    WEFT_CHECK_EQ(column.size(), metrics->steps.size(), "numbers of a column and steps");
  WEFT_CHECK(!run_json(run).empty(), "a run without a view");
}

}  // namespace weft::fuzz
