// Token shards: the corpus's one stream of tokens, cut into files of equal length (docs/formats.md,
// "Token shard").
//
// Token t lies in shard t / shard_tokens, so a document may go on in the next shard. Every position
// is 64 bits wide. Opening checks the header against its own checksum and the size of the file; the
// checksum of the payload is left to verify_corpus(), since it reads everything.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "base/checksum.h"
#include "base/file.h"
#include "corpus/file_header.h"
#include "corpus/sequence_source.h"

namespace weft {

// Width of a stored token; the value is the code in the file, and the bytes per token.
enum class TokenWidth : std::uint8_t { kU8 = 1, kU16 = 2, kU32 = 4 };
std::string_view to_string(TokenWidth width);  // "u8", "u16", "u32"
// The least width that holds every id of the vocabulary.
TokenWidth width_for(std::int32_t vocab_size);

inline constexpr std::uint32_t kTokenShardVersion = 1;

struct TokenShardHeader {
  TokenWidth width = TokenWidth::kU16;
  std::int64_t first_token = 0;        // position in the corpus
  std::int64_t num_tokens = 0;         // in this file
  std::uint64_t payload_checksum = 0;  // XXH3-64 of the tokens
  friend bool operator==(const TokenShardHeader&, const TokenShardHeader&) = default;
};

std::vector<std::byte> encode_header(const TokenShardHeader& header);
std::filesystem::path shard_file_name(std::int64_t shard_idx);  // "tokens-00000.bin"
// Tokens as they are stored, appended to `bytes`. REQUIRES: every id fits the width.
void append_stored_tokens(std::span<const TokenId> tokens, TokenWidth width,
                          std::vector<std::byte>& bytes);

// One mapped shard. Thread-safe for concurrent reads.
class TokenShard {
 public:
  explicit TokenShard(const std::filesystem::path& path);
  const TokenShardHeader& header() const { return header_; }
  const std::filesystem::path& path() const { return file_.path(); }
  std::span<const std::byte> payload() const { return file_.bytes().subspan(kFileHeaderBytes); }
  // tokens[i] = token first + i of this shard. REQUIRES: all inside.
  void read(std::int64_t first, std::span<TokenId> tokens) const;

 private:
  MappedFile file_;
  TokenShardHeader header_;
};

}  // namespace weft
