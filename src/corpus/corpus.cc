#include "corpus/corpus.h"

#include <algorithm>

namespace weft {
namespace {

namespace fs = std::filesystem;

CorpusDescription read_description(const fs::path& directory) {
  const fs::path path = directory.has_filename() ? directory : directory.parent_path();
  WEFT_USER_CHECK(fs::exists(directory),
                  "cannot open the corpus '{}': no such directory; weft corpus build makes one",
                  directory.string());
  WEFT_USER_CHECK(fs::is_directory(directory), "cannot open the corpus '{}': it is no directory",
                  directory.string());
  WEFT_USER_CHECK(path.filename().string().find(".incomplete-") == std::string::npos,
                  "'{}' is left over from a corpus build that did not finish; remove it and build "
                  "the corpus again",
                  directory.string());
  const fs::path file = directory / kCorpusDescriptionFile;
  WEFT_USER_CHECK(fs::exists(file), "'{}' is no corpus: expected the file {} in it, found none",
                  directory.string(), kCorpusDescriptionFile);
  return decode_description(read_text_file(file), file.string());
}

void check_index(const DocumentIndex& index, const CorpusDescription& description,
                 const fs::path& directory) {
  const DocumentIndexHeader& header = index.header();
  WEFT_USER_CHECK(header.num_documents == description.num_documents &&
                      header.num_tokens == description.num_tokens &&
                      header.num_targets == description.num_targets &&
                      header.payload_checksum == description.index_checksum,
                  "'{}': {} has {} documents, {} tokens and checksum {:016x}, {} expects {}, {} "
                  "and {:016x}: the files "
                  "belong to different corpora",
                  directory.string(), kDocumentIndexFile, header.num_documents, header.num_tokens,
                  header.payload_checksum, kCorpusDescriptionFile, description.num_documents,
                  description.num_tokens, description.index_checksum);
}

void check_shard(const TokenShard& shard, const CorpusDescription& description,
                 std::size_t shard_idx) {
  const TokenShardHeader expected{
      description.width, static_cast<std::int64_t>(shard_idx) * description.shard_tokens,
      description.shards[shard_idx].num_tokens, description.shards[shard_idx].checksum};
  const TokenShardHeader& found = shard.header();
  WEFT_USER_CHECK(
      found == expected,
      "{}: expected tokens [{}, {}) as {} with checksum {:016x}, found [{}, {}) as {} with "
      "{:016x}: the "
      "files belong to different corpora",
      shard.path().string(), expected.first_token, expected.first_token + expected.num_tokens,
      to_string(expected.width), expected.payload_checksum, found.first_token,
      found.first_token + found.num_tokens, to_string(found.width), found.payload_checksum);
}

}  // namespace

Corpus::Corpus(const fs::path& directory)
    : directory_(directory),
      description_(read_description(directory)),
      index_(directory / kDocumentIndexFile) {
  check_index(index_, description_, directory);
  shards_.reserve(description_.shards.size());
  for (std::size_t i = 0; i < description_.shards.size(); ++i) {
    shards_.emplace_back(directory / shard_file_name(static_cast<std::int64_t>(i)));
    check_shard(shards_.back(), description_, i);
  }
}

void Corpus::read(std::int64_t first_token, std::span<TokenId> tokens) const {
  WEFT_CHECK(first_token >= 0 &&
                 first_token + static_cast<std::int64_t>(tokens.size()) <= description_.num_tokens,
             "tokens [{}, {}) of a corpus of {}", first_token,
             first_token + static_cast<std::int64_t>(tokens.size()), description_.num_tokens);
  while (!tokens.empty()) {
    const std::int64_t shard_idx = first_token / description_.shard_tokens;
    const std::int64_t inside = first_token % description_.shard_tokens;
    const TokenShard& shard = shards_[static_cast<std::size_t>(shard_idx)];
    const std::int64_t count =
        std::min(static_cast<std::int64_t>(tokens.size()), shard.header().num_tokens - inside);
    shard.read(inside, tokens.first(static_cast<std::size_t>(count)));
    tokens = tokens.subspan(static_cast<std::size_t>(count));
    first_token += count;
  }
}

}  // namespace weft
