// Checkpoint manifests. First byte: odd sets the checksum right, so that the fuzzer gets past it.
#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint_manifest.h"
#include "tests/fuzz/fuzz_input.h"

namespace weft::fuzz {
namespace {

std::string sealed(const std::string& text) {
  auto json = nlohmann::ordered_json::parse(text, nullptr, false);
  if (!json.is_object()) return text;
  json.erase("checksum");
  const std::string values = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  json["checksum"] = hex64(checksum64(std::as_bytes(std::span(values.data(), values.size()))));
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

void run_target(Input input) {
  if (input.empty()) return;
  std::string text(as_text(input.subspan(1)));
  if ((std::to_integer<int>(input[0]) & 1) != 0) text = sealed(text);
  const auto manifest = value_or_refusal([&] { return decode_manifest(text, "fuzz"); });
  if (!manifest) return;
  for (const CheckpointTensor& tensor : manifest->tensors) {
    std::int64_t covered = 0;
    for (const CheckpointChunk& chunk : tensor.chunks) {
      WEFT_CHECK_EQ(chunk.begin, covered, "{}", tensor.name);
      covered = chunk.end;
    }
    WEFT_CHECK_EQ(covered, num_elements(tensor), "{}", tensor.name);
  }
  WEFT_CHECK(decode_manifest(encode_manifest(*manifest), "again") == *manifest,
             "a manifest reads back otherwise");
}

}  // namespace weft::fuzz
