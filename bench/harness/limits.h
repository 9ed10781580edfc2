// Samples of what the machine allows, in the units of rows.
#pragma once

#include "machine/fma_peak.h"

namespace weft::bench {

inline constexpr char kFmaPeakName[] = "fma peak of one thread";

inline double fma_gflops(FmaType type = FmaType::kFloat) {
  return 1e-9 * sample_fma_rate(type, 1, std::chrono::milliseconds(40));
}

}  // namespace weft::bench
