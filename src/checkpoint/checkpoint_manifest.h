// The manifest of a checkpoint, checkpoint.json: what a run's state is made of and where each
// element lies. It knows names, shapes and global element ranges, and nothing of ranks: a tensor is
// a list of chunks that cover it, each in some file, so a checkpoint written by any number of ranks
// is read by any other. It is also the commit marker: written last, and sealed by a checksum.
//
// Parsing raises UserError, naming `what`, for anything that is not exactly such a value: unknown
// version, wrong types, chunks with holes or overlaps, files that are not named plainly. No tensor
// type is seen here. Format: docs/formats.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/checksum.h"
#include "checkpoint/run_position.h"

namespace weft {

inline constexpr std::int64_t kCheckpointVersion = 1;
inline constexpr std::string_view kManifestFile = "checkpoint.json";
inline constexpr std::string_view kCheckpointConfigFile = "config.toml";

struct CheckpointFile {
  std::string name;  // inside the checkpoint's folder
  std::int64_t bytes = 0;
  std::uint64_t checksum = 0;  // XXH3-64 of the whole file
  friend bool operator==(const CheckpointFile&, const CheckpointFile&) = default;
};

// Elements [begin, end) of the flattened tensor, stored in a safetensors file under chunk_name().
struct CheckpointChunk {
  std::int64_t file_idx = 0;  // into CheckpointManifest::files
  std::int64_t begin = 0;
  std::int64_t end = 0;
  friend bool operator==(const CheckpointChunk&, const CheckpointChunk&) = default;
};

struct CheckpointTensor {
  std::string name;   // "parameter/model.norm.weight", "first_moment/...", "second_moment/..."
  std::string dtype;  // as safetensors names it: "F32"
  std::vector<std::int64_t> shape;
  std::vector<CheckpointChunk> chunks;  // ascending; cover the tensor without hole or overlap
  friend bool operator==(const CheckpointTensor&, const CheckpointTensor&) = default;
};
std::int64_t num_elements(const CheckpointTensor& tensor);
std::string chunk_name(std::string_view tensor, std::int64_t begin);  // "NAME@BEGIN"

struct CheckpointManifest {
  RunPosition position;
  Hash128 corpus_hash;
  Hash128 config_hash;  // of the text in config.toml
  std::vector<CheckpointFile> files;
  std::vector<CheckpointTensor> tensors;
  friend bool operator==(const CheckpointManifest&, const CheckpointManifest&) = default;
};

std::string encode_manifest(const CheckpointManifest& manifest);
CheckpointManifest decode_manifest(std::string_view text, const std::string& what);

}  // namespace weft
