#include "corpus/document_reader.h"

#include <algorithm>
#include <array>

#include "corpus/jsonl_reader.h"
#include "corpus/text_reader.h"

namespace weft {

std::unique_ptr<DocumentReader> open_document_reader(const std::filesystem::path& path,
                                                     std::string_view text_key) {
  if (uncompressed_name(path).extension() == ".jsonl") {
    return std::make_unique<JsonlReader>(path, std::string(text_key));
  }
  return std::make_unique<TextReader>(path);
}

TextSource::TextSource(const std::filesystem::path& path) : stream_(open_byte_stream(path)) {}

std::size_t TextSource::read(std::span<char> buffer, const RecordPlace& place) {
  if (started_) return read_stream(buffer, place);
  started_ = true;
  return read_start(buffer, place);
}

std::size_t TextSource::read_stream(std::span<char> buffer, const RecordPlace& place) {
  try {
    return stream_->read(buffer);
  } catch (const DamagedStream& damage) {
    throw BadRecordError(BadRecordReason::kDamagedCompression, place,
                         fmt::format("expected a whole compressed file, found: {}", damage.what()));
  }
}

std::size_t TextSource::read_start(std::span<char> buffer, const RecordPlace& place) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  WEFT_CHECK(buffer.size() > kMark.size(), "the first read needs room for a byte order mark");
  std::size_t filled = 0;
  while (filled < kMark.size()) {
    const std::size_t count = read_stream(buffer.subspan(filled), place);
    if (count == 0) break;
    filled += count;
  }
  if (!std::string_view(buffer.data(), filled).starts_with(kMark)) return filled;
  mark_bytes_ = static_cast<std::int64_t>(kMark.size());
  std::copy(buffer.begin() + kMark.size(), buffer.begin() + static_cast<std::ptrdiff_t>(filled),
            buffer.begin());
  filled -= kMark.size();
  return filled > 0 ? filled : read_stream(buffer, place);
}

}  // namespace weft
