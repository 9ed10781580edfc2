// JsonlReader: one JSON object per line, one document per object.
//
// A line is checked whole (also the keys that are not read), so that a broken file is not read as a
// good one. Lines of white space are no records. A line is held in memory, whatever its size up to
// the 4 GiB of the JSON parser.
#pragma once

#include <memory>
#include <vector>

#include "corpus/document_reader.h"

namespace weft {

class JsonlReader final : public DocumentReader {
 public:
  JsonlReader(const std::filesystem::path& path, std::string text_key);
  ~JsonlReader() override;
  bool next_document() override;
  std::string_view next_chunk() override;
  RecordPlace place() const override { return place_at(0); }
  std::int64_t input_bytes() const override { return source_.input_bytes(); }

 private:
  struct Parser;

  bool next_line();  // sets line_; false at the end
  void make_room();
  std::string_view text_of_line();
  RecordPlace place_at(std::size_t position_in_line) const;
  [[noreturn]] void throw_bad(BadRecordReason reason, std::size_t position,
                              std::string_view problem);

  std::string path_;
  std::string text_key_;
  TextSource source_;
  std::unique_ptr<Parser> parser_;
  std::vector<char>
      buffer_;  // unread text in [begin_, end_), then the padding that the parser may read
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::size_t scanned_ = 0;  // no line end in [begin_, scanned_)
  bool at_end_ = false;
  std::string_view line_;         // the current record, in buffer_
  std::int64_t line_number_ = 0;  // of line_, from 1
  std::int64_t line_offset_ = 0;  // of line_ in the text
  std::int64_t next_offset_ = 0;  // of begin_ in the text
  std::string_view text_;         // what is left of the document, in the parser's memory
};

}  // namespace weft
