#include <algorithm>

#include "corpus/corpus.h"

namespace weft {
namespace {

constexpr std::int64_t kBlockTokens = std::int64_t{1} << 18;
constexpr std::size_t kListedDamages = 10;

class Verification {
 public:
  Verification(const Corpus& corpus, const std::function<void(std::int64_t)>& on_progress)
      : corpus_(corpus),
        on_progress_(on_progress),
        tokens_(static_cast<std::size_t>(std::min(kBlockTokens, corpus.num_tokens().value()))) {}

  void run() {
    next_end_ = end_of(0);
    for (const TokenShard& shard : corpus_.shards()) check_shard(shard);
    StreamingHash index_hash;
    index_hash.update(corpus_.index().payload());
    const Hash128 hash = combine_corpus_hash(corpus_.description().tokenizer, token_hash_.hash128(),
                                             index_hash.hash128());
    if (hash != corpus_.hash()) {
      found(fmt::format("the corpus hash should be {}, the content gives {}", corpus_.hash().hex(),
                        hash.hex()));
    }
    if (num_damages_ == 0) return;
    throw_user_error("corpus '{}': {} damages found; build it again:{}",
                     corpus_.directory().string(), num_damages_, damages_);
  }

 private:
  void found(const std::string& damage) {
    if (++num_damages_ <= static_cast<std::int64_t>(kListedDamages)) damages_ += "\n  " + damage;
  }

  std::int64_t end_of(std::int64_t document_idx) const {
    const DocumentInfo info = corpus_.document(document_idx);
    return info.first_token + info.tokens.value();
  }

  void check_shard(const TokenShard& shard) {
    StreamingHash hash;
    const TokenShardHeader& header = shard.header();
    const auto width = static_cast<std::int64_t>(header.width);
    for (std::int64_t first = 0; first < header.num_tokens; first += kBlockTokens) {
      const std::int64_t count = std::min(kBlockTokens, header.num_tokens - first);
      const auto bytes = shard.payload().subspan(static_cast<std::size_t>(first * width),
                                                 static_cast<std::size_t>(count * width));
      hash.update(bytes);
      token_hash_.update(bytes);
      shard.read(first, std::span(tokens_).first(static_cast<std::size_t>(count)));
      check_tokens(header.first_token + first, count);
      bytes_read_ += count * width;
      if (on_progress_) on_progress_(bytes_read_);
    }
    if (const std::uint64_t checksum = hash.checksum64(); checksum != header.payload_checksum) {
      found(fmt::format("{}: the tokens' checksum should be {:016x}, their bytes give {:016x}",
                        shard.path().string(), header.payload_checksum, checksum));
    }
  }

  void check_tokens(std::int64_t first_token, std::int64_t count) {
    const TokenizerDescription& tokenizer = corpus_.description().tokenizer;
    for (std::int64_t i = 0; i < count; ++i) {
      const TokenId token = tokens_[static_cast<std::size_t>(i)];
      const bool is_last = first_token + i + 1 == next_end_;
      if (token < 0 || token >= tokenizer.vocab_size) {
        found(fmt::format("token {} of document {} is {}, outside the vocabulary of {} ids",
                          first_token + i, document_idx_, token, tokenizer.vocab_size));
      } else if ((token == tokenizer.end_token) != is_last) {
        found(fmt::format(
            "token {} of document {} is {}, {}", first_token + i, document_idx_, token,
            is_last ? "where its end token is expected" : "an end token before its end"));
      }
      if (is_last && ++document_idx_ < corpus_.num_documents()) next_end_ = end_of(document_idx_);
    }
  }

  const Corpus& corpus_;
  const std::function<void(std::int64_t)>& on_progress_;
  std::vector<TokenId> tokens_;  // one block
  StreamingHash token_hash_;
  std::int64_t document_idx_ = 0;  // of the token being checked
  std::int64_t next_end_ = 0;      // its end, exclusive
  std::int64_t bytes_read_ = 0;
  std::int64_t num_damages_ = 0;
  std::string damages_;
};

}  // namespace

void verify_corpus(const Corpus& corpus,
                   const std::function<void(std::int64_t bytes)>& on_progress) {
  Verification(corpus, on_progress).run();
}

}  // namespace weft
