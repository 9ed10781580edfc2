// CorpusWriter: documents in, a corpus directory out. Streaming: memory is a few buffers, whatever
// is written.
//
// A document becomes part of the corpus with end_document(), which adds its end token; until then
// it can be taken back. A document too large to wait in memory waits in a file of its own, so the
// shards never have to be cut. The directory appears under its name in finish(), or not at all.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "base/checksum.h"
#include "base/file.h"
#include "corpus/corpus_description.h"

namespace weft {

struct CorpusWriterOptions {
  std::int64_t shard_tokens = std::int64_t{1} << 30;  // tokens per shard file, >= 1
  std::int64_t pending_tokens = std::int64_t{4}
                                << 20;  // tokens of an open document kept in memory, >= 1
};

// Not thread-safe.
class CorpusWriter {
 public:
  // UserError when `target` exists.
  CorpusWriter(const std::filesystem::path& target, TokenizerDescription tokenizer,
               CorpusWriterOptions options);
  ~CorpusWriter();

  void append(std::span<const TokenId> tokens);  // to the open document
  void end_document();
  void discard_document();
  std::int64_t num_documents() const { return num_documents_; }
  std::int64_t num_tokens() const { return num_tokens_; }

  // Writes the description and commits. REQUIRES: no open document, at least one document.
  CorpusDescription finish(const BuildDescription& build);

 private:
  struct OpenShard;

  void write_tokens(std::span<const TokenId> tokens);
  void write_spilled_tokens();
  void spill();
  void close_shard();

  TokenizerDescription tokenizer_;
  CorpusWriterOptions options_;
  TokenWidth width_;
  AtomicDirectory directory_;
  FileWriter index_;
  StreamingHash index_hash_;
  StreamingHash token_hash_;
  std::unique_ptr<OpenShard> shard_;
  std::vector<ShardDescription> shards_;
  std::vector<TokenId> pending_;       // the open document, as far as it is not spilled
  std::unique_ptr<FileWriter> spill_;  // its first tokens, when it is large
  std::int64_t document_tokens_ = 0;   // of the open document
  std::int64_t num_documents_ = 0;
  std::int64_t num_tokens_ = 0;   // of all documents
  std::vector<std::byte> bytes_;  // scratch
};

}  // namespace weft
