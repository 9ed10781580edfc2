// DocumentReader: the documents of one input file, one after another, each in chunks. A seam per
// input format.
//
// Chunks are valid UTF-8, cut only between code points, so a document of any size streams through
// bounded memory. What is wrong with the input is a BadRecordError; after one the reader stands
// behind the bad record and next_document() goes on from there (a damaged file ends). A byte order
// mark at the start is not part of the text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "corpus/bad_record.h"
#include "corpus/byte_stream.h"

namespace weft {

class DocumentReader {
 public:
  virtual ~DocumentReader() = default;
  // Moves to the next document, also when the last one was not read to its end; false behind the
  // last.
  virtual bool next_document() = 0;
  // The next chunk of the document, valid until the next call; empty at its end.
  virtual std::string_view next_chunk() = 0;
  // Where the document starts.
  virtual RecordPlace place() const = 0;
  // Bytes of the file on disk that were read so far.
  virtual std::int64_t input_bytes() const = 0;
};

// *.jsonl (also .gz, .zst): one document per line, the string under `text_key`. Anything else: one
// text document.
std::unique_ptr<DocumentReader> open_document_reader(const std::filesystem::path& path,
                                                     std::string_view text_key);

// What the readers of all formats have in common: the file's text without its byte order mark, and
// a damaged stream turned into a BadRecordError at the place that the caller gives.
class TextSource {
 public:
  explicit TextSource(const std::filesystem::path& path);
  // 0 only at the end. `place`: where in the text the bytes would go.
  std::size_t read(std::span<char> buffer, const RecordPlace& place);
  std::int64_t mark_bytes() const {
    return mark_bytes_;
  }  // size of the byte order mark; known after the first read
  std::int64_t input_bytes() const { return stream_->input_bytes(); }

 private:
  std::size_t read_stream(std::span<char> buffer, const RecordPlace& place);
  std::size_t read_start(std::span<char> buffer, const RecordPlace& place);

  std::unique_ptr<ByteStream> stream_;
  std::int64_t mark_bytes_ = 0;
  bool started_ = false;
};

}  // namespace weft
