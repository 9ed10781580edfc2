// TextReader: one file, one document. Line ends are kept as they are: they are part of a text.
#pragma once

#include <vector>

#include "corpus/document_reader.h"

namespace weft {

class TextReader final : public DocumentReader {
 public:
  explicit TextReader(const std::filesystem::path& path);
  bool next_document() override;
  std::string_view next_chunk() override;
  RecordPlace place() const override { return {path_, 1, 1, 0}; }
  std::int64_t input_bytes() const override { return source_.input_bytes(); }

 private:
  RecordPlace place_in(std::string_view text, std::size_t position) const;

  std::string path_;
  TextSource source_;
  std::vector<char> buffer_;     // the current chunk, then at most 3 bytes of a cut code point
  std::size_t chunk_bytes_ = 0;  // of the chunk handed out last
  std::size_t rest_bytes_ = 0;   // bytes behind it that wait for the rest of their code point
  std::int64_t offset_ = 0;      // of buffer_[0] in the text
  std::int64_t line_ = 1;        // of buffer_[0]
  std::int64_t column_ = 1;      // of buffer_[0]
  bool opened_ = false;
  bool finished_ = false;
};

}  // namespace weft
