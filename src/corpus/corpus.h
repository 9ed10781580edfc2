// Corpus: a corpus directory, opened for reading: one stream of tokens and the documents in it.
//
// Opening maps the files and checks description, index (checksum and order) and the headers and
// sizes of the shards; it does not read the tokens (verify_corpus does). Memory: the pages that are
// touched, shared between processes. Immutable, so safe to share between threads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "base/units.h"
#include "corpus/corpus_description.h"
#include "corpus/document_index.h"
#include "corpus/token_shard.h"

namespace weft {

class Corpus {
 public:
  // UserError when the directory is no corpus, an unfinished one, a newer one, or damaged.
  explicit Corpus(const std::filesystem::path& directory);

  std::int64_t num_documents() const { return description_.num_documents; }
  Tokens num_tokens() const { return Tokens(description_.num_tokens); }
  DocumentInfo document(std::int64_t document_idx) const { return index_.document(document_idx); }
  // tokens[i] = token first_token + i of the corpus. REQUIRES: all inside.
  void read(std::int64_t first_token, std::span<TokenId> tokens) const;

  Hash128 hash() const { return description_.hash; }
  const CorpusDescription& description() const { return description_; }
  const DocumentIndex& index() const { return index_; }
  std::span<const TokenShard> shards() const { return shards_; }
  const std::filesystem::path& directory() const { return directory_; }

 private:
  std::filesystem::path directory_;
  CorpusDescription description_;
  DocumentIndex index_;
  std::vector<TokenShard> shards_;
};

// Reads every token: checksums of the shards, ids inside the vocabulary, an end token at the end of
// each document and nowhere else, and the corpus hash. UserError that lists every damage found.
// `on_progress` gets the bytes read.
void verify_corpus(const Corpus& corpus,
                   const std::function<void(std::int64_t bytes)>& on_progress);

}  // namespace weft
