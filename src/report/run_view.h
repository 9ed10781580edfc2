// One run's folder as the report shows it: curves, their summary, and which of its plans to draw.
//
// Figures of the whole run come from all steps; curves of a long run hold every k-th step, and the
// page says which.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/metrics_reader.h"

namespace weft {

// Points of a curve that the page holds at most: more than a screen has pixels.
inline constexpr std::size_t kMostCurvePoints = 4000;

struct RunView {
  std::string name;  // what the page calls it: the folder's own name, unless changed
  std::filesystem::path folder;
  std::string strategy;               // "" where the folder has no configuration
  std::optional<std::int64_t> ranks;  // as configured
  std::optional<std::int64_t> capacity;
  std::string config;  // config.toml
  MetricsTable metrics;
  std::vector<std::string> notes;                 // what a reader must know about the numbers
  std::vector<std::filesystem::path> plan_files;  // OUT/plans, in the order of their steps
};

// UserError when the folder holds no metrics.jsonl.
RunView read_run(const std::filesystem::path& folder);

// "loss_last" and so on, in a fixed order: docs/report.md "Figures". NaN where no step has one.
std::vector<std::pair<std::string, double>> summarize(const MetricsTable& metrics);

// At most `count` of the files, first and last among them, evenly spread.
std::vector<std::filesystem::path> spread(const std::vector<std::filesystem::path>& files,
                                          std::int64_t count);

// {"name": ..., "summary": {...}, "columns": {...}}
std::string run_json(const RunView& run);

}  // namespace weft
