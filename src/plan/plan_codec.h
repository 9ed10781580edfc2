// The canonical binary form of a plan (docs/formats.md "Plan") and its JSON view.
//
// File layout: magic "WEFTPLAN", u32 version, u32 reserved, u64 payload bytes, u64 XXH3 of the
// payload, payload. The plan's hash is XXH3-128 of the payload, so equal plans have equal hashes on
// every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <span>
#include <string_view>
#include <vector>

#include "plan/step_plan.h"

namespace weft {

// 1 had no rank_capacity. A plan without pipelines is written as 2, one with as 3, which has
// pipeline_stages, one with interleaved ones as 4, which has virtual_stages too: plans of each kind
// have one form, and the others keep their hashes.
inline constexpr std::uint32_t kPlanVersion = 2;
inline constexpr std::uint32_t kPipelinePlanVersion = 3;
inline constexpr std::uint32_t kInterleavedPlanVersion = 4;

std::vector<std::byte> encode_plan(const StepPlan& plan);
// Throws UserError naming `source` for wrong magic, newer version, wrong checksum, truncation,
// impossible counts. Structure only; call validate() for meaning.
StepPlan decode_plan(std::span<const std::byte> bytes, const std::string& source);
Hash128 plan_hash(const StepPlan& plan);

void save_plan(const std::filesystem::path& path, const StepPlan& plan);  // atomic
StepPlan load_plan(const std::filesystem::path& path);

// Streams JSON without building a document in memory. One object; stable keys in a fixed order.
// REQUIRES: validate(plan) holds: totals are summed. `more`: a further member, `"key": value`.
void write_plan_json(std::ostream& out, const StepPlan& plan, std::string_view more = {});

}  // namespace weft
