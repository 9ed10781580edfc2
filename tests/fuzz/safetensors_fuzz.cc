// safetensors files, as far as they are read before a tensor is made. First byte: odd puts the
// right header length in front of the rest (the header ends with its last '}'), even gives the rest
// as it is.
#include <algorithm>
#include <cstring>

#include "checkpoint/safetensors_header.h"
#include "tests/fuzz/fuzz_input.h"

namespace weft::fuzz {
namespace {

bool same(const SafetensorsEntry& a, const SafetensorsEntry& b) {
  return a.name == b.name && a.dtype == b.dtype && a.shape == b.shape && a.begin == b.begin &&
         a.end == b.end;
}

std::string with_length(std::string_view rest) {
  const std::uint64_t length = rest.rfind('}') + 1;  // 0 when there is none
  std::string bytes(sizeof(length), '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  return bytes.append(rest);
}

}  // namespace

void run_target(Input input) {
  if (input.empty()) return;
  std::string bytes(as_text(input.subspan(1)));
  if ((std::to_integer<int>(input[0]) & 1) != 0) bytes = with_length(bytes);
  const auto layout = value_or_refusal([&] {
    return read_safetensors_layout(std::as_bytes(std::span(bytes.data(), bytes.size())), "fuzz");
  });
  if (!layout) return;
  WEFT_CHECK(layout->data_begin <= bytes.size(), "data at {}", layout->data_begin);
  const std::uint64_t data_bytes = bytes.size() - layout->data_begin;
  std::uint64_t covered = 0;
  for (const SafetensorsEntry& entry : layout->header.entries) {
    WEFT_CHECK(entry.begin == covered && entry.end <= data_bytes, "'{}'", entry.name);
    covered = entry.end;
  }
  WEFT_CHECK_EQ(covered, data_bytes, "bytes covered");
  const auto again =
      parse_safetensors_header(format_safetensors_header(layout->header), covered, "again");
  WEFT_CHECK(std::ranges::equal(again.entries, layout->header.entries, same) &&
                 again.metadata == layout->header.metadata,
             "a header reads back otherwise");
}

}  // namespace weft::fuzz
