#include "corpus/corpus_writer.h"

#include <algorithm>

#include "corpus/byte_stream.h"
#include "corpus/document_index.h"

namespace weft {
namespace {

constexpr std::string_view kSpillFile = "open-document.tmp";

std::span<const std::byte> bytes_of(std::span<const TokenId> tokens) {
  return std::as_bytes(tokens);
}

}  // namespace

struct CorpusWriter::OpenShard {
  OpenShard(const std::filesystem::path& path, const TokenShardHeader& start)
      : file(path), header(start) {
    file.write(encode_header(header));  // overwritten by close_shard()
  }
  FileWriter file;
  StreamingHash hash;
  TokenShardHeader header;
};

CorpusWriter::CorpusWriter(const std::filesystem::path& target, TokenizerDescription tokenizer,
                           CorpusWriterOptions options)
    : tokenizer_(std::move(tokenizer)),
      options_(options),
      width_(width_for(tokenizer_.vocab_size)),
      directory_(target),
      index_(directory_.path() / kDocumentIndexFile) {
  WEFT_USER_CHECK(options.shard_tokens >= 1, "corpus: expected at least 1 token per shard, got {}",
                  options.shard_tokens);
  WEFT_CHECK(options.pending_tokens >= 1, "{} pending tokens", options.pending_tokens);
  index_.write(encode_header(DocumentIndexHeader{}));  // overwritten when the counts are known
}

CorpusWriter::~CorpusWriter() = default;

void CorpusWriter::append(std::span<const TokenId> tokens) {
  pending_.insert(pending_.end(), tokens.begin(), tokens.end());
  document_tokens_ += static_cast<std::int64_t>(tokens.size());
  if (static_cast<std::int64_t>(pending_.size()) > options_.pending_tokens) spill();
}

void CorpusWriter::spill() {
  if (spill_ == nullptr) spill_ = std::make_unique<FileWriter>(directory_.path() / kSpillFile);
  spill_->write(bytes_of(pending_));
  pending_.clear();
}

void CorpusWriter::end_document() {
  append({&tokenizer_.end_token, 1});
  if (spill_ != nullptr) write_spilled_tokens();
  write_tokens(pending_);
  bytes_.clear();
  append_index_entry(num_tokens_, document_tokens_ - 1, bytes_);
  index_.write(bytes_);
  index_hash_.update(bytes_);
  num_tokens_ += document_tokens_;
  ++num_documents_;
  pending_.clear();
  document_tokens_ = 0;
}

void CorpusWriter::discard_document() {
  pending_.clear();
  spill_.reset();  // its file is truncated by the next one, and removed in the end
  document_tokens_ = 0;
}

void CorpusWriter::write_spilled_tokens() {
  spill_->flush();
  spill_.reset();
  const auto stream = open_byte_stream(directory_.path() / kSpillFile);
  std::vector<TokenId> tokens(std::size_t{1} << 18);
  const std::span<char> buffer(reinterpret_cast<char*>(tokens.data()),
                               tokens.size() * sizeof(TokenId));
  for (;;) {
    std::size_t filled = 0;
    while (filled < buffer.size()) {
      const std::size_t count = stream->read(buffer.subspan(filled));
      if (count == 0) break;
      filled += count;
    }
    if (filled == 0) return;
    write_tokens(std::span(tokens).first(filled / sizeof(TokenId)));
  }
}

void CorpusWriter::write_tokens(std::span<const TokenId> tokens) {
  while (!tokens.empty()) {
    if (shard_ == nullptr) {
      const auto idx = static_cast<std::int64_t>(shards_.size());
      TokenShardHeader header{width_, idx * options_.shard_tokens, 0, 0};
      shard_ = std::make_unique<OpenShard>(directory_.path() / shard_file_name(idx), header);
    }
    const std::int64_t room = options_.shard_tokens - shard_->header.num_tokens;
    const auto part = tokens.first(
        static_cast<std::size_t>(std::min(room, static_cast<std::int64_t>(tokens.size()))));
    bytes_.clear();
    append_stored_tokens(part, width_, bytes_);
    shard_->file.write(bytes_);
    shard_->hash.update(bytes_);
    token_hash_.update(bytes_);
    shard_->header.num_tokens += static_cast<std::int64_t>(part.size());
    if (shard_->header.num_tokens == options_.shard_tokens) close_shard();
    tokens = tokens.subspan(part.size());
  }
}

void CorpusWriter::close_shard() {
  shard_->header.payload_checksum = shard_->hash.checksum64();
  shard_->file.write_at(0, encode_header(shard_->header));
  shard_->file.close();
  shards_.push_back({shard_->header.num_tokens, shard_->header.payload_checksum});
  shard_.reset();
}

CorpusDescription CorpusWriter::finish(const BuildDescription& build) {
  WEFT_CHECK(document_tokens_ == 0, "a document of {} tokens is still open", document_tokens_);
  WEFT_CHECK(num_documents_ >= 1, "a corpus without documents");
  if (shard_ != nullptr) close_shard();
  const DocumentIndexHeader header{num_documents_, num_tokens_, num_tokens_ - num_documents_,
                                   index_hash_.checksum64()};
  index_.write_at(0, encode_header(header));
  index_.close();
  std::filesystem::remove(directory_.path() / kSpillFile);

  CorpusDescription description;
  description.tokenizer = tokenizer_;
  description.width = width_;
  description.num_documents = num_documents_;
  description.num_tokens = num_tokens_;
  description.num_targets = header.num_targets;
  description.shard_tokens = options_.shard_tokens;
  description.shards = shards_;
  description.index_checksum = header.payload_checksum;
  description.hash = combine_corpus_hash(tokenizer_, token_hash_.hash128(), index_hash_.hash128());
  description.build = build;
  write_file_atomically(directory_.path() / kCorpusDescriptionFile,
                        encode_description(description));
  directory_.commit();
  return description;
}

}  // namespace weft
