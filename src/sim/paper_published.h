// What ByteScale (arXiv 2502.21231) printed, as data: the figures that weft simulate --paper puts
// its predictions beside.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "base/units.h"

namespace weft {

inline constexpr std::array<Tokens, 4> kPaperContexts{
    {Tokens(std::int64_t{1} << 18), Tokens(std::int64_t{1} << 19), Tokens(std::int64_t{1} << 20),
     Tokens(std::int64_t{1} << 21)}};

// One panel of Fig. 17: speedups over static meshes, for each of kPaperContexts.
struct PaperPanel {
  std::string model;     // a preset of cost/model_shape.h
  std::string workload;  // "github" or "byted"
  std::int64_t num_devices = 0;
  std::array<double, 4> naive{};
  std::array<double, 4> balanced{};
  // The published strategy for models without pipelines (section 8.2), else PP-balance.
  bool is_dp_balance = false;
  // The four columns of it may be calibrated on.
  bool is_calibration() const { return model == "llama-7b" && workload == "github"; }
};

std::span<const PaperPanel> paper_panels();  // in the order of the figure: 12 of them

// Section 8.2: throughput falls by so much per doubling of the context on GitHub, on average.
struct PaperScaling {
  double baseline = 2;
  double naive = 1.23;
  double balanced = 1.08;
  // The text says 2; the bars of Fig. 17, read to a few percent, fall by this over all six panels
  // (1.84 for LLaMA-7B).
  double baseline_bars = 1.64;
};

// Fig. 20, LLaMA-7B, Byted, 2M: over the baseline, without the remote data loader.
struct PaperAblation {
  double dynamic_communication = 1.59;
  double selective_offload = 2.01;
  double balance = 3.69;
};

// Section 8.3, Fig. 18, the same run, one step.
struct PaperCaseStudy {
  double baseline_s = 520;
  double naive_s = 272;
  double balanced_s = 157;
  double naive_least_s = 60;  // compute of a rank
  double naive_most_s = 279;
  double naive_deviation_s = 68;
};

// Fig. 21, 64K context: step time and memory over those without offload.
struct PaperOffloadPoint {
  double ratio = 0;
  double time = 1;
  double memory = 1;
};
inline constexpr std::array<PaperOffloadPoint, 4> kPaperOffload{
    {{0.5, 1.0, 0.678}, {0.6, 1.058, 0.627}, {0.8, 1.165, 0.559}, {1.0, 1.277, 0.458}}};
inline constexpr double kPaperRecomputeTime = 1.317;

// Fig. 6(b): GitHub tokens packed at random into 6 x 6 micro-batches of at most 32K.
inline constexpr double kPaperRowBalance = 0.825;     // mean over largest sum of a row
inline constexpr double kPaperCellSpread = 62 / 6.5;  // largest over smallest cell

// Megatron-LM's example of dynamic context parallelism: 10 % trimmed means of its step times.
struct MegatronPoint {
  std::int32_t ranks = 0;
  double static_ms = 0;
  double dynamic_ms = 0;
};
inline constexpr std::array<MegatronPoint, 5> kMegatronDynamic{{{4, 195.269, 151.906},
                                                                {8, 220.119, 155.850},
                                                                {16, 226.775, 187.125},
                                                                {32, 286.206, 208.088},
                                                                {64, 271.988, 181.912}}};

}  // namespace weft
