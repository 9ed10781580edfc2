#include "checkpoint/checkpoint_manifest.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "weft-checkpoint";

std::string checksum_of(const Json& json) {
  return hex64(checksum64(json.dump()));
}

// nlohmann converts between kinds of numbers without a word: 1.5 and 1e30 would become integers.
std::int64_t integer_at(const Json& json, const char* key, const std::string& what) {
  const Json& value = json.at(key);
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() ||
                     value.get<std::uint64_t>() <=
                         static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
  WEFT_USER_CHECK(fits && value.get<std::int64_t>() >= 0,
                  "{}: expected a whole number of at least 0 for \"{}\", found {}", what, key,
                  value.dump());
  return value.get<std::int64_t>();
}

Json to_json(const CheckpointManifest& manifest) {
  const RunPosition& position = manifest.position;
  Json files = Json::array();
  for (const CheckpointFile& file : manifest.files) {
    files.push_back(
        {{"name", file.name}, {"bytes", file.bytes}, {"checksum", hex64(file.checksum)}});
  }
  Json tensors = Json::array();
  for (const CheckpointTensor& tensor : manifest.tensors) {
    Json chunks = Json::array();
    for (const CheckpointChunk& chunk : tensor.chunks) {
      chunks.push_back({chunk.file_idx, chunk.begin, chunk.end});
    }
    tensors.push_back({{"name", tensor.name},
                       {"dtype", tensor.dtype},
                       {"shape", tensor.shape},
                       {"chunks", std::move(chunks)}});
  }
  return {{"format", kFormat},
          {"version", kCheckpointVersion},
          {"step", position.step},
          {"num_updates", position.num_updates},
          {"dropped_sequences", position.dropped_sequences},
          {"reader",
           {{"seed", position.reader.seed},
            {"epoch", position.reader.epoch},
            {"position", position.reader.position}}},
          {"corpus_hash", manifest.corpus_hash.hex()},
          {"config_hash", manifest.config_hash.hex()},
          {"files", std::move(files)},
          {"tensors", std::move(tensors)}};
}

CheckpointFile file_from_json(const Json& json, const std::string& what) {
  CheckpointFile file{.name = json.at("name").get<std::string>(),
                      .bytes = integer_at(json, "bytes", what),
                      .checksum = parse_hex64(json.at("checksum").get<std::string>(), what)};
  const bool plain = !file.name.empty() && file.name != "." && file.name != ".." &&
                     file.name.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
  WEFT_USER_CHECK(plain && file.name != kManifestFile,
                  "{}: '{}' is not the name of a file inside the checkpoint", what, file.name);
  return file;
}

void check_chunks(const CheckpointTensor& tensor, std::size_t num_files, const std::string& what) {
  std::int64_t covered = 0;
  for (const CheckpointChunk& chunk : tensor.chunks) {
    WEFT_USER_CHECK(chunk.file_idx < static_cast<std::int64_t>(num_files),
                    "{}: tensor '{}' lies in file {}, but only {} files are listed", what,
                    tensor.name, chunk.file_idx, num_files);
    WEFT_USER_CHECK(chunk.begin == covered && chunk.end > chunk.begin,
                    "{}: the chunks of tensor '{}' must cover it without hole or overlap: after "
                    "element {} comes [{}, {})",
                    what, tensor.name, covered, chunk.begin, chunk.end);
    covered = chunk.end;
  }
  WEFT_USER_CHECK(covered == num_elements(tensor),
                  "{}: the chunks of tensor '{}' hold {} elements, its shape has {}", what,
                  tensor.name, covered, num_elements(tensor));
}

CheckpointTensor tensor_from_json(const Json& json, std::size_t num_files,
                                  const std::string& what) {
  CheckpointTensor tensor{.name = json.at("name").get<std::string>(),
                          .dtype = json.at("dtype").get<std::string>(),
                          .shape = {},
                          .chunks = {}};
  std::int64_t elements = 1;
  for (const Json& size : json.at("shape")) {
    const std::int64_t dimension = integer_at({{"shape", size}}, "shape", what);
    WEFT_USER_CHECK(!__builtin_mul_overflow(elements, dimension, &elements),
                    "{}: the shape of tensor '{}' has more elements than 64 bits can count", what,
                    tensor.name);
    tensor.shape.push_back(dimension);
  }
  for (const Json& chunk : json.at("chunks")) {
    WEFT_USER_CHECK(chunk.is_array() && chunk.size() == 3,
                    "{}: tensor '{}': expected [file, begin, end] for a chunk, found {}", what,
                    tensor.name, chunk.dump());
    const Json named{{"file", chunk[0]}, {"begin", chunk[1]}, {"end", chunk[2]}};
    tensor.chunks.push_back({integer_at(named, "file", what), integer_at(named, "begin", what),
                             integer_at(named, "end", what)});
  }
  check_chunks(tensor, num_files, what);
  return tensor;
}

CheckpointManifest from_json(const Json& json, const std::string& what) {
  CheckpointManifest manifest;
  const Json& reader = json.at("reader");
  WEFT_USER_CHECK(reader.at("seed").is_number_unsigned(),
                  "{}: expected a whole number for the reader's seed, found {}", what,
                  reader.at("seed").dump());
  manifest.position = {.step = integer_at(json, "step", what),
                       .num_updates = integer_at(json, "num_updates", what),
                       .dropped_sequences = integer_at(json, "dropped_sequences", what),
                       .reader = {.seed = reader.at("seed").get<std::uint64_t>(),
                                  .epoch = integer_at(reader, "epoch", what),
                                  .position = integer_at(reader, "position", what)}};
  WEFT_USER_CHECK(manifest.position.num_updates <= manifest.position.step,
                  "{}: {} optimizer updates in {} steps", what, manifest.position.num_updates,
                  manifest.position.step);
  manifest.corpus_hash = parse_hash128(json.at("corpus_hash").get<std::string>(), what);
  manifest.config_hash = parse_hash128(json.at("config_hash").get<std::string>(), what);
  for (const Json& file : json.at("files")) manifest.files.push_back(file_from_json(file, what));
  for (const Json& tensor : json.at("tensors")) {
    manifest.tensors.push_back(tensor_from_json(tensor, manifest.files.size(), what));
  }
  return manifest;
}

}  // namespace

std::int64_t num_elements(const CheckpointTensor& tensor) {
  std::int64_t elements = 1;
  for (const std::int64_t size : tensor.shape) elements *= size;
  return elements;
}

std::string chunk_name(std::string_view tensor, std::int64_t begin) {
  return fmt::format("{}@{}", tensor, begin);
}

std::string encode_manifest(const CheckpointManifest& manifest) {
  Json json = to_json(manifest);
  json["checksum"] = checksum_of(json);
  return json.dump(1) + "\n";
}

CheckpointManifest decode_manifest(std::string_view text, const std::string& what) {
  try {
    Json json = Json::parse(text);
    WEFT_USER_CHECK(json.is_object() && json.value("format", "") == kFormat,
                    "{}: expected \"format\": \"{}\", found another JSON file", what, kFormat);
    const std::int64_t version = integer_at(json, "version", what);
    WEFT_USER_CHECK(version >= 1 && version <= kCheckpointVersion,
                    "{}: this checkpoint has version {}, this program reads versions 1 to {}: "
                    "read it with a newer program",
                    what, version, kCheckpointVersion);
    const auto stored = json.at("checksum").get<std::string>();
    json.erase("checksum");
    const std::string computed = checksum_of(json);
    WEFT_USER_CHECK(stored == computed,
                    "{}: damaged or edited by hand: its checksum is {}, its values give {}", what,
                    stored, computed);
    return from_json(json, what);
  } catch (const Json::exception& error) {
    throw_user_error("{}: expected the manifest of a checkpoint, found something else: {}", what,
                     error.what());
  }
}

}  // namespace weft
