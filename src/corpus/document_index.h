// DocumentIndex: where each document starts in the token stream, and how many targets it has
// (docs/formats.md, "Document index"). Two 64-bit numbers per document.
//
// Mapped; checksum and order of the entries are verified when it is opened, so that nothing below
// has to doubt them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "base/file.h"
#include "base/units.h"

namespace weft {

inline constexpr std::uint32_t kDocumentIndexVersion = 1;
inline constexpr std::string_view kDocumentIndexFile = "index.bin";

struct DocumentInfo {
  std::int64_t first_token = 0;  // position in the corpus
  Tokens tokens;                 // end token included; >= 1
  std::int64_t num_targets = 0;  // target weight: tokens - 1
  friend bool operator==(const DocumentInfo&, const DocumentInfo&) = default;
};

struct DocumentIndexHeader {
  std::int64_t num_documents = 0;
  std::int64_t num_tokens = 0;
  std::int64_t num_targets = 0;
  std::uint64_t payload_checksum = 0;  // XXH3-64 of the entries
};

std::vector<std::byte> encode_header(const DocumentIndexHeader& header);
void append_index_entry(std::int64_t first_token, std::int64_t num_targets,
                        std::vector<std::byte>& bytes);

// Thread-safe for concurrent reads.
class DocumentIndex {
 public:
  explicit DocumentIndex(const std::filesystem::path& path);
  const DocumentIndexHeader& header() const { return header_; }
  DocumentInfo document(std::int64_t document_idx) const;
  std::span<const std::byte> payload() const;

 private:
  std::int64_t entry(std::int64_t document_idx, std::size_t field) const;
  void check_entries() const;

  MappedFile file_;
  DocumentIndexHeader header_;
};

}  // namespace weft
