// metrics.jsonl -> columns (docs/metrics.md). Steps ascend. A last line that a kill cut short, or
// that is being written, is left out and counted; any other damage is a UserError that names file
// and line.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// The numbers of a line that the report shows, in the order of MetricsTable::columns.
inline constexpr std::array<std::string_view, 25> kMetricKeys{"loss",
                                                              "grad_norm",
                                                              "lr",
                                                              "tokens",
                                                              "target_tokens",
                                                              "tokens_per_s",
                                                              "mfu",
                                                              "step_s",
                                                              "plan_s",
                                                              "data_s",
                                                              "forward_s",
                                                              "backward_s",
                                                              "exchange_s",
                                                              "reduce_s",
                                                              "optimizer_s",
                                                              "imbalance",
                                                              "slowest_rank",
                                                              "gap",
                                                              "predicted_s",
                                                              "exchange_bytes",
                                                              "peak_bytes",
                                                              "sharded_sequences",
                                                              "max_degree",
                                                              "skipped_steps",
                                                              "dropped_sequences"};

struct MetricsTable {
  std::vector<std::int64_t> steps;  // ascending, unique
  // [kMetricKeys][steps]; NaN where the line says null.
  std::array<std::vector<double>, kMetricKeys.size()> columns;
  std::vector<std::string> plan_hashes;  // [steps]
  bool is_cut = false;                   // the last line has no end, and was left out
  const std::vector<double>& column(std::string_view key) const;  // REQUIRES: one of kMetricKeys
};

// `source` names the file in messages.
MetricsTable parse_metrics(std::string_view text, std::string_view source);
MetricsTable read_metrics(const std::filesystem::path& path);

}  // namespace weft
