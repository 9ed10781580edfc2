// CorpusDescription: corpus.json, the one file that makes a directory a corpus, and is written
// last.
//
// It names the tokenizer, the shards and the index with their checksums, the corpus hash, and how
// the corpus was built with every record accounted for: records = documents + empty + skipped. It
// guards itself with a checksum over its values (not its white space). It holds no time and no
// host, so equal inputs give equal bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "corpus/bad_record.h"
#include "corpus/token_shard.h"
#include "corpus/tokenizer.h"

namespace weft {

inline constexpr std::int64_t kCorpusVersion = 1;
inline constexpr std::string_view kCorpusDescriptionFile = "corpus.json";

struct TokenizerDescription {
  std::string name;
  std::int32_t vocab_size = 0;
  TokenId end_token = 0;
  friend bool operator==(const TokenizerDescription&, const TokenizerDescription&) = default;
};
TokenizerDescription describe(const Tokenizer& tokenizer);

struct ShardDescription {
  std::int64_t num_tokens = 0;
  std::uint64_t checksum = 0;
  friend bool operator==(const ShardDescription&, const ShardDescription&) = default;
};

struct BuildDescription {
  std::vector<std::string> inputs;
  std::string text_key;
  BadRecordPolicy on_bad_record = BadRecordPolicy::kFail;
  std::int64_t num_files = 0;
  std::int64_t input_bytes = 0;  // on disk
  std::int64_t num_records = 0;  // = documents + empty + skipped
  std::int64_t num_empty = 0;
  BadRecordCounts skipped{};
  friend bool operator==(const BuildDescription&, const BuildDescription&) = default;

  std::int64_t num_skipped() const;
};

struct CorpusDescription {
  TokenizerDescription tokenizer;
  TokenWidth width = TokenWidth::kU16;
  std::int64_t num_documents = 0;
  std::int64_t num_tokens = 0;
  std::int64_t num_targets = 0;
  std::int64_t shard_tokens = 0;  // tokens of every shard but the last
  std::vector<ShardDescription> shards;
  std::uint64_t index_checksum = 0;
  Hash128 hash;
  BuildDescription build;
  friend bool operator==(const CorpusDescription&, const CorpusDescription&) = default;
};

std::string encode_description(const CorpusDescription& description);
// UserError that names `what`: not JSON, not a corpus, newer version, damaged, or values that
// contradict each other.
CorpusDescription decode_description(std::string_view text, const std::string& what);

// The corpus hash: of the tokens, the document bounds and the tokenizer, not of shards, names or
// time. `token_hash` is over the tokens as stored, `index_hash` over the index entries.
Hash128 combine_corpus_hash(const TokenizerDescription& tokenizer, Hash128 token_hash,
                            Hash128 index_hash);

}  // namespace weft
