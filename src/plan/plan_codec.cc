#include "plan/plan_codec.h"

#include <fmt/ostream.h>

#include <cmath>
#include <string>
#include <string_view>

#include "base/binary_io.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json_text.h"
#include "plan/plan_wire.h"

namespace weft {
namespace {

constexpr std::string_view kMagic = "WEFTPLAN";
// Least sizes: their lists may be empty.
constexpr std::size_t kGroupBytes = 2 * sizeof(std::int32_t) + sizeof(std::uint64_t);
constexpr std::size_t kRankBytes = sizeof(std::uint64_t);

std::uint32_t version_of(const StepPlan& plan) {
  if (plan.virtual_stages > 1) return kInterleavedPlanVersion;
  return plan.pipeline_stages == 1 ? kPlanVersion : kPipelinePlanVersion;
}

std::vector<std::byte> encode_payload(const StepPlan& plan) {
  ByteWriter writer;
  writer.write(plan.step);
  writer.write(plan.seed);
  writer.write_string(plan.strategy);
  writer.write(plan.num_ranks);
  writer.write(plan.capacity.value());
  writer.write(static_cast<std::uint64_t>(plan.rank_capacity.size()));
  for (const Tokens tokens : plan.rank_capacity) writer.write(tokens.value());
  writer.write(plan.num_layers);
  if (version_of(plan) >= kPipelinePlanVersion) writer.write(plan.pipeline_stages);
  if (version_of(plan) >= kInterleavedPlanVersion) writer.write(plan.virtual_stages);
  writer.write(static_cast<std::uint8_t>(plan.weighting));
  writer.write(plan.makespan.value());
  writer.write(plan.lower_bound.value());
  writer.write(plan.num_slots);
  plan_wire::write_sequences(writer, plan.sequences);
  writer.write(static_cast<std::uint64_t>(plan.groups.size()));
  for (const Group& group : plan.groups) {
    writer.write(group.sequence_idx);
    writer.write(group.slot_idx);
    plan_wire::write_ranks(writer, group.ranks);
  }
  writer.write(static_cast<std::uint64_t>(plan.ranks.size()));
  for (const auto& micro_batches : plan.ranks) {
    plan_wire::write_micro_batches(writer, micro_batches);
  }
  return writer.take();
}

StepPlan decode_payload(ByteReader& reader, std::uint32_t version) {
  StepPlan plan;
  plan.step = reader.read<std::int64_t>();
  plan.seed = reader.read<std::uint64_t>();
  plan.strategy = reader.read_string();
  plan.num_ranks = reader.read<std::int32_t>();
  plan.capacity = Tokens(reader.read<std::int64_t>());
  plan.rank_capacity.resize(reader.read_count(sizeof(std::int64_t)));
  for (Tokens& tokens : plan.rank_capacity) tokens = Tokens(reader.read<std::int64_t>());
  plan.num_layers = reader.read<std::int32_t>();
  const auto read_stages = [&](std::uint32_t least_version, std::string_view kind,
                               std::int32_t& stages) {
    if (version < least_version) return;
    stages = reader.read<std::int32_t>();
    WEFT_USER_CHECK(stages >= 2,
                    "{}: at offset {} of the payload {} {} stages in a plan of version {}, "
                    "expected at least 2: one plan has one form",
                    reader.what(), reader.offset() - sizeof(std::int32_t), stages, kind, version);
  };
  read_stages(kPipelinePlanVersion, "pipeline", plan.pipeline_stages);
  read_stages(kInterleavedPlanVersion, "virtual", plan.virtual_stages);
  plan.weighting = static_cast<LossWeighting>(reader.read<std::uint8_t>());
  WEFT_USER_CHECK(
      plan.weighting == LossWeighting::kToken || plan.weighting == LossWeighting::kSample,
      "{}: at offset {} of the payload loss weighting {}, expected 0 (token) or 1 (sample)",
      reader.what(), reader.offset() - 1, static_cast<int>(plan.weighting));
  plan.makespan = Nanoseconds(reader.read<std::int64_t>());
  plan.lower_bound = Nanoseconds(reader.read<std::int64_t>());
  plan.num_slots = reader.read<std::int32_t>();
  plan.sequences = plan_wire::read_sequences(reader);
  plan.groups.resize(reader.read_count(kGroupBytes));
  for (Group& group : plan.groups) {
    group.sequence_idx = reader.read<std::int32_t>();
    group.slot_idx = reader.read<std::int32_t>();
    group.ranks = plan_wire::read_ranks(reader);
  }
  plan.ranks.resize(reader.read_count(kRankBytes));
  for (auto& micro_batches : plan.ranks) micro_batches = plan_wire::read_micro_batches(reader);
  reader.expect_end();
  return plan;
}

// Writes "[", the items on a line each, "]".
template <class Items, class WriteItem>
void write_list(std::ostream& out, const Items& items, const WriteItem& write_item) {
  out << '[';
  std::string_view separator = "\n";
  for (const auto& item : items) {
    out << separator;
    write_item(item);
    separator = ",\n";
  }
  out << ']';
}

void write_micro_batch_json(std::ostream& out, const MicroBatch& micro_batch) {
  fmt::print(out, R"({{"slot_idx": {}, "offload_ratio": {}, "tokens": {}, "pieces": [)",
             micro_batch.slot_idx, json_number(micro_batch.offload_ratio), micro_batch.tokens());
  std::string_view separator;
  for (const Piece& piece : micro_batch.pieces) {
    fmt::print(out, R"({}{{"sequence_idx": {}, "group_idx": {}, "begin": {}, "end": {}}})",
               separator, piece.sequence_idx,
               piece.group_idx == kNoGroup ? "null" : fmt::format("{}", piece.group_idx),
               piece.range.begin, piece.range.end);
    separator = ", ";
  }
  out << "]}";
}

}  // namespace

std::vector<std::byte> encode_plan(const StepPlan& plan) {
  return plan_wire::wrap(kMagic, version_of(plan), encode_payload(plan));
}

StepPlan decode_plan(std::span<const std::byte> bytes, const std::string& source) {
  const plan_wire::Frame frame =
      plan_wire::unwrap(bytes, kMagic, {kPlanVersion, kInterleavedPlanVersion}, "plan", source);
  ByteReader reader(frame.payload, source);
  return decode_payload(reader, frame.version);
}

Hash128 plan_hash(const StepPlan& plan) { return hash128(encode_payload(plan)); }

void save_plan(const std::filesystem::path& path, const StepPlan& plan) {
  write_file_atomically(path, encode_plan(plan));
}

StepPlan load_plan(const std::filesystem::path& path) {
  const MappedFile file(path);
  return decode_plan(file.bytes(), path.string());
}

void write_plan_json(std::ostream& out, const StepPlan& plan, std::string_view more) {
  fmt::print(out, R"({{"format": "weft-plan", "version": {}, "hash": "{}", "step": {}, "seed": {},
"strategy": {}, "num_ranks": {}, "capacity_tokens": {}, "num_layers": {}, "pipeline_stages": {},
"virtual_stages": {}, "weighting": "{}",
"rank_capacity_tokens": [{}], "num_slots": {}, "makespan_ns": {}, "lower_bound_ns": {}, "gap": {},
"sequences": )",
             version_of(plan), plan_hash(plan).hex(), plan.step, plan.seed,
             json_string(plan.strategy), plan.num_ranks, plan.capacity, plan.num_layers,
             plan.pipeline_stages, plan.virtual_stages, to_string(plan.weighting),
             fmt::join(plan.rank_capacity, ", "), plan.num_slots, plan.makespan, plan.lower_bound,
             json_number(plan.gap()));
  write_list(out, plan.sequences, [&](const SequenceSpec& sequence) {
    fmt::print(out, R"({{"id": {}, "tokens": {}, "num_targets": {}}})", sequence.id,
               sequence.tokens, sequence.num_targets);
  });
  out << ",\n\"groups\": ";
  write_list(out, plan.groups, [&](const Group& group) {
    fmt::print(out, R"({{"sequence_idx": {}, "slot_idx": {}, "ranks": [{}]}})", group.sequence_idx,
               group.slot_idx, fmt::join(group.ranks, ", "));
  });
  out << ",\n\"ranks\": ";
  write_list(out, plan.ranks, [&](const std::vector<MicroBatch>& micro_batches) {
    write_list(out, micro_batches,
               [&](const MicroBatch& micro_batch) { write_micro_batch_json(out, micro_batch); });
  });
  if (!more.empty()) out << ",\n" << more;
  out << "}\n";
}

}  // namespace weft
