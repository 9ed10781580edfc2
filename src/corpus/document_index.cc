#include "corpus/document_index.h"

#include <cstring>

#include "base/binary_io.h"
#include "base/checksum.h"
#include "corpus/file_header.h"

namespace weft {
namespace {

constexpr FileKind kKind = {"WEFTINDX", "document index", kDocumentIndexVersion};
constexpr std::size_t kEntryBytes = 2 * sizeof(std::int64_t);

DocumentIndexHeader decode_header(std::span<const std::byte> file, const std::string& what) {
  ByteReader reader = open_header(file, kKind, what);
  const auto entry_bytes = reader.read<std::uint32_t>();
  WEFT_USER_CHECK(entry_bytes == kEntryBytes, "{}: expected entries of {} bytes, found {}", what,
                  kEntryBytes, entry_bytes);
  DocumentIndexHeader header;
  header.num_documents = reader.read<std::int64_t>();
  header.num_tokens = reader.read<std::int64_t>();
  header.num_targets = reader.read<std::int64_t>();
  header.payload_checksum = reader.read<std::uint64_t>();
  return header;
}

}  // namespace

std::vector<std::byte> encode_header(const DocumentIndexHeader& header) {
  ByteWriter writer;
  begin_header(kKind, writer);
  writer.write(static_cast<std::uint32_t>(kEntryBytes));
  writer.write(header.num_documents);
  writer.write(header.num_tokens);
  writer.write(header.num_targets);
  writer.write(header.payload_checksum);
  return seal_header(std::move(writer));
}

void append_index_entry(std::int64_t first_token, std::int64_t num_targets,
                        std::vector<std::byte>& bytes) {
  const std::size_t start = bytes.size();
  bytes.resize(start + kEntryBytes);
  std::memcpy(bytes.data() + start, &first_token, sizeof(first_token));
  std::memcpy(bytes.data() + start + sizeof(first_token), &num_targets, sizeof(num_targets));
}

DocumentIndex::DocumentIndex(const std::filesystem::path& path)
    : file_(path), header_(decode_header(file_.bytes(), path.string())) {
  const std::size_t entries_bytes = payload().size();
  WEFT_USER_CHECK(
      header_.num_documents >= 0 && entries_bytes % kEntryBytes == 0 &&
          entries_bytes / kEntryBytes == static_cast<std::uint64_t>(header_.num_documents),
      "{}: its header states {} documents of {} bytes, but {} bytes of entries follow: the file is "
      "cut "
      "or has grown; build the corpus again",
      path.string(), header_.num_documents, kEntryBytes, entries_bytes);
  const std::uint64_t computed = checksum64(payload());
  WEFT_USER_CHECK(computed == header_.payload_checksum,
                  "{}: the entries are damaged: their checksum should be {:016x}, their bytes give "
                  "{:016x}; build "
                  "the corpus again",
                  path.string(), header_.payload_checksum, computed);
  check_entries();
}

std::span<const std::byte> DocumentIndex::payload() const {
  return file_.bytes().subspan(kFileHeaderBytes);
}

std::int64_t DocumentIndex::entry(std::int64_t document_idx, std::size_t field) const {
  std::int64_t value = 0;
  std::memcpy(&value,
              payload().data() + static_cast<std::size_t>(document_idx) * kEntryBytes +
                  field * sizeof(value),
              sizeof(value));
  return value;
}

DocumentInfo DocumentIndex::document(std::int64_t document_idx) const {
  WEFT_CHECK(0 <= document_idx && document_idx < header_.num_documents, "document {} of {}",
             document_idx, header_.num_documents);
  const std::int64_t first = entry(document_idx, 0);
  const std::int64_t end =
      document_idx + 1 < header_.num_documents ? entry(document_idx + 1, 0) : header_.num_tokens;
  // Unsigned, since check_entries() also asks for entries that are nonsense.
  const std::uint64_t tokens = static_cast<std::uint64_t>(end) - static_cast<std::uint64_t>(first);
  return {first, Tokens(static_cast<std::int64_t>(tokens)), entry(document_idx, 1)};
}

void DocumentIndex::check_entries() const {
  std::int64_t end = 0;
  std::int64_t num_targets = 0;
  for (std::int64_t idx = 0; idx < header_.num_documents; ++idx) {
    const DocumentInfo info = document(idx);
    WEFT_USER_CHECK(info.first_token == end && info.tokens.value() >= 1 &&
                        info.num_targets == info.tokens.value() - 1 &&
                        info.tokens.value() <= header_.num_tokens,
                    "{}: document {} is said to start at token {} (expected {}), to have {} tokens "
                    "and {} targets "
                    "(expected tokens - 1): not a corpus that this program writes",
                    file_.path().string(), idx, info.first_token, end, info.tokens,
                    info.num_targets);
    end += info.tokens.value();
    num_targets += info.num_targets;
  }
  WEFT_USER_CHECK(end == header_.num_tokens && num_targets == header_.num_targets,
                  "{}: its header states {} tokens and {} targets, its documents have {} and {}",
                  file_.path().string(), header_.num_tokens, header_.num_targets, end, num_targets);
}

}  // namespace weft
