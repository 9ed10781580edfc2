// What the plan file and the slice message share: the frame (magic, version, length, checksum) and
// the parts that both hold. Byte tables: docs/formats.md "Plan". Internal to plan/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/binary_io.h"
#include "base/checksum.h"
#include "plan/step_plan.h"

namespace weft::plan_wire {

inline constexpr std::size_t kMagicBytes = 8;
inline constexpr std::size_t kFrameBytes = kMagicBytes + 4 + 4 + 8 + 8;
inline constexpr std::size_t kRangeBytes = 2 * sizeof(std::int64_t);
inline constexpr std::size_t kSequenceBytes = 3 * sizeof(std::int64_t);
inline constexpr std::size_t kPieceBytes = 2 * sizeof(std::int32_t) + kRangeBytes;
// Least sizes: their lists may be empty.
inline constexpr std::size_t kMicroBatchBytes =
    sizeof(std::int32_t) + sizeof(double) + sizeof(std::uint64_t);

// `magic` has kMagicBytes characters.
std::vector<std::byte> wrap(std::string_view magic, std::uint32_t version,
                            std::span<const std::byte> payload);
// Formats that a reader knows, from the oldest to the newest.
struct Versions {
  std::uint32_t oldest = 1;
  std::uint32_t newest = 1;
};
struct Frame {
  std::uint32_t version = 0;
  std::span<const std::byte> payload;
};
// The frame of `bytes`; UserError naming `source` and `kind` ("plan") when it is not whole.
Frame unwrap(std::span<const std::byte> bytes, std::string_view magic, Versions versions,
             std::string_view kind, const std::string& source);

void write_sequences(ByteWriter& writer, std::span<const SequenceSpec> sequences);
std::vector<SequenceSpec> read_sequences(ByteReader& reader);
void write_ranks(ByteWriter& writer, std::span<const Rank> ranks);
std::vector<Rank> read_ranks(ByteReader& reader);
void write_range(ByteWriter& writer, TokenRange range);
TokenRange read_range(ByteReader& reader);
void write_micro_batches(ByteWriter& writer, std::span<const MicroBatch> micro_batches);
std::vector<MicroBatch> read_micro_batches(ByteReader& reader);

}  // namespace weft::plan_wire
