#include "plan/plan_wire.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace weft::plan_wire {

std::vector<std::byte> wrap(std::string_view magic, std::uint32_t version,
                            std::span<const std::byte> payload) {
  WEFT_CHECK_EQ(magic.size(), kMagicBytes, "magic '{}'", magic);
  ByteWriter writer;
  for (const char c : magic) writer.write(c);
  writer.write(version);
  writer.write(std::uint32_t{0});
  writer.write(static_cast<std::uint64_t>(payload.size()));
  writer.write(checksum64(payload));
  std::vector<std::byte> bytes = writer.take();
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

Frame unwrap(std::span<const std::byte> bytes, std::string_view magic, Versions versions,
             std::string_view kind, const std::string& source) {
  ByteReader reader(bytes, source);
  std::string found;
  for (std::size_t i = 0; i < std::min(kMagicBytes, bytes.size()); ++i)
    found.push_back(reader.read<char>());
  WEFT_USER_CHECK(
      found.size() < kMagicBytes ? !found.empty() && magic.starts_with(found) : found == magic,
      "{}: not a Weft {}: it does not start with '{}'", source, kind, magic);
  const auto found_version = reader.read<std::uint32_t>();
  WEFT_USER_CHECK(
      found_version <= versions.newest,
      "{}: {} format version {} is newer than version {}, the newest this program knows; "
      "use a newer Weft",
      source, kind, found_version, versions.newest);
  WEFT_USER_CHECK(
      found_version >= versions.oldest,
      "{}: {} format version {} is older than version {}, the oldest this program reads; "
      "plan again with this program",
      source, kind, found_version, versions.oldest);
  const auto reserved = reader.read<std::uint32_t>();
  WEFT_USER_CHECK(reserved == 0, "{}: the reserved field of the {} header is {}, expected 0",
                  source, kind, reserved);
  const auto payload_bytes = reader.read<std::uint64_t>();
  const auto checksum = reader.read<std::uint64_t>();
  WEFT_USER_CHECK(payload_bytes == reader.remaining(),
                  "{}: the {} should hold {} bytes after its header, but {} are there: {}", source,
                  kind, payload_bytes, reader.remaining(),
                  payload_bytes > reader.remaining() ? "truncated" : "it has trailing bytes");
  const auto payload = bytes.subspan(kFrameBytes);
  const std::uint64_t actual = checksum64(payload);
  WEFT_USER_CHECK(actual == checksum,
                  "{}: the {}'s checksum is {:016x}, expected {:016x}; the bytes were changed",
                  source, kind, actual, checksum);
  return {.version = found_version, .payload = payload};
}

void write_sequences(ByteWriter& writer, std::span<const SequenceSpec> sequences) {
  writer.write(static_cast<std::uint64_t>(sequences.size()));
  for (const SequenceSpec& sequence : sequences) {
    writer.write(sequence.id);
    writer.write(sequence.tokens.value());
    writer.write(sequence.num_targets);
  }
}

std::vector<SequenceSpec> read_sequences(ByteReader& reader) {
  std::vector<SequenceSpec> sequences(reader.read_count(kSequenceBytes));
  for (SequenceSpec& sequence : sequences) {
    sequence.id = reader.read<std::int64_t>();
    sequence.tokens = Tokens(reader.read<std::int64_t>());
    sequence.num_targets = reader.read<std::int64_t>();
  }
  return sequences;
}

void write_ranks(ByteWriter& writer, std::span<const Rank> ranks) {
  writer.write(static_cast<std::uint64_t>(ranks.size()));
  for (const Rank rank : ranks) writer.write(rank.value());
}

std::vector<Rank> read_ranks(ByteReader& reader) {
  std::vector<Rank> ranks(reader.read_count(sizeof(std::int32_t)));
  for (Rank& rank : ranks) rank = Rank(reader.read<std::int32_t>());
  return ranks;
}

void write_range(ByteWriter& writer, TokenRange range) {
  writer.write(range.begin);
  writer.write(range.end);
}

TokenRange read_range(ByteReader& reader) {
  const auto begin = reader.read<std::int64_t>();
  return {begin, reader.read<std::int64_t>()};
}

void write_micro_batches(ByteWriter& writer, std::span<const MicroBatch> micro_batches) {
  writer.write(static_cast<std::uint64_t>(micro_batches.size()));
  for (const MicroBatch& micro_batch : micro_batches) {
    writer.write(micro_batch.slot_idx);
    // -0.0 equals 0.0, so it must have the same bytes.
    writer.write(micro_batch.offload_ratio == 0 ? 0.0 : micro_batch.offload_ratio);
    writer.write(static_cast<std::uint64_t>(micro_batch.pieces.size()));
    for (const Piece& piece : micro_batch.pieces) {
      writer.write(piece.sequence_idx);
      writer.write(piece.group_idx);
      write_range(writer, piece.range);
    }
  }
}

std::vector<MicroBatch> read_micro_batches(ByteReader& reader) {
  std::vector<MicroBatch> micro_batches(reader.read_count(kMicroBatchBytes));
  for (MicroBatch& micro_batch : micro_batches) {
    micro_batch.slot_idx = reader.read<std::int32_t>();
    micro_batch.offload_ratio = reader.read<double>();
    WEFT_USER_CHECK(micro_batch.offload_ratio != 0 || !std::signbit(micro_batch.offload_ratio),
                    "{}: at offset {} an offload ratio of -0, expected 0: one plan has one form",
                    reader.what(), reader.offset() - sizeof(double));
    micro_batch.pieces.resize(reader.read_count(kPieceBytes));
    for (Piece& piece : micro_batch.pieces) {
      piece.sequence_idx = reader.read<std::int32_t>();
      piece.group_idx = reader.read<std::int32_t>();
      piece.range = read_range(reader);
    }
  }
  return micro_batches;
}

}  // namespace weft::plan_wire
