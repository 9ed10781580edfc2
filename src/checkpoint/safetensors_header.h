// The JSON header of a safetensors file as a value, and its strict parser. Kept apart from tensors:
// it knows names, dtypes, shapes and offsets only, and is built without libtorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

inline constexpr std::uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;
inline constexpr std::uint64_t kSafetensorsPrefixBytes = 8;  // the u64 header length

struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // "F32"
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  // bytes from the start of the data
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry>
      entries;  // in data order, covering the data without hole or overlap
  std::map<std::string, std::string> metadata;
};

// `text`: the header's bytes, which start at file offset 8. `data_bytes`: what follows them in the
// file. `file` names the file in messages. Every rule is checked, also that the entries cover the
// data exactly.
SafetensorsHeader parse_safetensors_header(std::string_view text, std::uint64_t data_bytes,
                                           std::string_view file);

// A whole file in memory: its length prefix and header checked against its size, before anything is
// allocated.
struct SafetensorsLayout {
  SafetensorsHeader header;
  std::uint64_t data_begin = 0;  // offset of the data in the file
};
SafetensorsLayout read_safetensors_layout(std::span<const std::byte> bytes, std::string_view file);

// The header's JSON, padded with spaces so that the data starts at a multiple of 8 bytes.
std::string format_safetensors_header(const SafetensorsHeader& header);

// UserError names the dtype and `where` when the format has no such dtype.
std::uint64_t safetensors_element_bytes(std::string_view dtype, std::string_view where);

}  // namespace weft
