// Lines of metrics.jsonl for tests.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "report/metrics_reader.h"

namespace weft {

// Every number is `value` plus its place in kMetricKeys.
inline std::string metrics_line(int step, double value) {
  std::string line = fmt::format("{{\"schema\":\"weft.metrics.v1\",\"step\":{}", step);
  for (std::size_t k = 0; k < kMetricKeys.size(); ++k)
    line += fmt::format(",\"{}\":{}", kMetricKeys[k], value + static_cast<double>(k));
  return line + fmt::format(",\"plan_hash\":\"hash{}\",\"resumed_at\":null}}", step);
}

// The first occurrence of `from`, which must be there, as `to`.
inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return text.replace(at, from.size(), to);
}

}  // namespace weft
