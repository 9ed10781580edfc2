#include "corpus/text_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "corpus/utf8_text.h"

namespace weft {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

}  // namespace

TextReader::TextReader(const std::filesystem::path& path)
    : path_(path.string()), source_(path), buffer_(kChunkBytes) {}

bool TextReader::next_document() {
  if (opened_) finished_ = true;
  return !std::exchange(opened_, true);
}

std::string_view TextReader::next_chunk() {
  if (finished_) return {};
  const RecordPlace here = place_in({buffer_.data(), chunk_bytes_}, chunk_bytes_);
  offset_ = here.offset - source_.mark_bytes();
  line_ = here.line;
  column_ = here.column;
  std::memmove(buffer_.data(), buffer_.data() + chunk_bytes_, rest_bytes_);
  chunk_bytes_ = 0;

  finished_ = true;  // also when anything below throws: a bad text ends its file
  std::size_t filled = rest_bytes_;
  std::size_t complete = 0;
  bool at_end = false;
  while (complete == 0 && !at_end) {
    const std::size_t count = source_.read(std::span(buffer_).subspan(filled), here);
    filled += count;
    at_end = count == 0;
    const std::string_view text(buffer_.data(), filled);
    complete = at_end ? filled : complete_utf8_prefix(text);
  }
  const std::string_view chunk(buffer_.data(), complete);
  if (const auto flaw = find_text_flaw(chunk)) {
    throw BadRecordError(flaw->reason, place_in(chunk, flaw->position),
                         describe_flaw(*flaw, chunk));
  }
  chunk_bytes_ = complete;
  rest_bytes_ = filled - complete;
  finished_ = at_end;
  return chunk;
}

RecordPlace TextReader::place_in(std::string_view text, std::size_t position) const {
  const std::string_view before = text.substr(0, position);
  const auto lines = std::count(before.begin(), before.end(), '\n');
  const std::size_t last_line = before.rfind('\n');
  const auto column = lines == 0 ? column_ + static_cast<std::int64_t>(position)
                                 : static_cast<std::int64_t>(position - last_line);
  return {path_, line_ + lines, column,
          offset_ + source_.mark_bytes() + static_cast<std::int64_t>(position)};
}

}  // namespace weft
