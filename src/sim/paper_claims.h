// The paper's other checkable claims, predicted.
#pragma once

#include <string>
#include <vector>

#include "sim/paper_figure17.h"

namespace weft {

struct PaperClaim {
  std::string group;  // "ablation", "case study", ...
  std::string name;
  double published = 0;  // 0: nothing was
  double predicted = 0;
  double error() const { return published == 0 ? 0 : predicted / published - 1; }
};

// Fig. 20: LLaMA-7B, Byted, 2M.
std::vector<PaperClaim> predict_ablation(const PaperRunOptions& options);
// Fig. 18: ratios of step times and the spread of compute over ranks under naive HDP.
std::vector<PaperClaim> predict_case_study(const PaperRunOptions& options);
// Fig. 18 again, per layer: compute and exchange of a ring step, static over 256 ranks and HDP over
// 39.
std::vector<PaperClaim> predict_ring_overlap(const PaperRunOptions& options);
// Fig. 6(b): balance of randomly packed micro-batches, by causal pairs.
std::vector<PaperClaim> predict_random_packing();
// Sections 3.2, 5.1, 5.2: ranks that sequences need.
std::vector<PaperClaim> predict_degrees();
// Fig. 21: step time and memory against the offload ratio; one ratio (half is free) sets the scale.
std::vector<PaperClaim> predict_offload_curve();

}  // namespace weft
