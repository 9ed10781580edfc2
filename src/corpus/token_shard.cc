#include "corpus/token_shard.h"

#include <cstring>

#include "base/binary_io.h"
#include "corpus/file_header.h"

namespace weft {
namespace {

constexpr FileKind kKind = {"WEFTTOKS", "token shard", kTokenShardVersion};

template <class Stored>
void copy_tokens(const std::byte* from, std::span<TokenId> tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    Stored stored;
    std::memcpy(&stored, from + i * sizeof(Stored), sizeof(Stored));
    tokens[i] = static_cast<TokenId>(stored);
  }
}

template <class Stored>
void store_tokens(std::span<const TokenId> tokens, std::byte* to) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto stored = static_cast<Stored>(tokens[i]);
    std::memcpy(to + i * sizeof(Stored), &stored, sizeof(Stored));
  }
}

TokenShardHeader decode_header(std::span<const std::byte> file, const std::string& what) {
  ByteReader reader = open_header(file, kKind, what);
  TokenShardHeader header;
  const auto code = reader.read<std::uint32_t>();
  WEFT_USER_CHECK(code == 1 || code == 2 || code == 4,
                  "{}: expected token width code 1, 2 or 4 (bytes per token), found {}", what,
                  code);
  header.width = static_cast<TokenWidth>(code);
  header.first_token = reader.read<std::int64_t>();
  header.num_tokens = reader.read<std::int64_t>();
  header.payload_checksum = reader.read<std::uint64_t>();
  return header;
}

}  // namespace

std::string_view to_string(TokenWidth width) {
  switch (width) {
    case TokenWidth::kU8:
      return "u8";
    case TokenWidth::kU16:
      return "u16";
    case TokenWidth::kU32:
      return "u32";
  }
  throw_internal_error("token width {} has no name", static_cast<int>(width));
}

TokenWidth width_for(std::int32_t vocab_size) {
  if (vocab_size <= 0x100) return TokenWidth::kU8;
  if (vocab_size <= 0x10000) return TokenWidth::kU16;
  return TokenWidth::kU32;
}

std::vector<std::byte> encode_header(const TokenShardHeader& header) {
  ByteWriter writer;
  begin_header(kKind, writer);
  writer.write(static_cast<std::uint32_t>(header.width));
  writer.write(header.first_token);
  writer.write(header.num_tokens);
  writer.write(header.payload_checksum);
  return seal_header(std::move(writer));
}

std::filesystem::path shard_file_name(std::int64_t shard_idx) {
  return fmt::format("tokens-{:05}.bin", shard_idx);
}

void append_stored_tokens(std::span<const TokenId> tokens, TokenWidth width,
                          std::vector<std::byte>& bytes) {
  const std::size_t start = bytes.size();
  bytes.resize(start + tokens.size() * static_cast<std::size_t>(width));
  switch (width) {
    case TokenWidth::kU8:
      store_tokens<std::uint8_t>(tokens, bytes.data() + start);
      break;
    case TokenWidth::kU16:
      store_tokens<std::uint16_t>(tokens, bytes.data() + start);
      break;
    case TokenWidth::kU32:
      store_tokens<std::uint32_t>(tokens, bytes.data() + start);
      break;
  }
}

TokenShard::TokenShard(const std::filesystem::path& path)
    : file_(path), header_(decode_header(file_.bytes(), path.string())) {
  const std::size_t width = static_cast<std::size_t>(header_.width);
  const std::size_t payload_bytes = payload().size();
  WEFT_USER_CHECK(header_.num_tokens >= 0 && payload_bytes % width == 0 &&
                      payload_bytes / width == static_cast<std::uint64_t>(header_.num_tokens),
                  "{}: its header states {} tokens of {} bytes, but {} bytes of tokens follow: the "
                  "file is cut or "
                  "has grown; build the corpus again",
                  path.string(), header_.num_tokens, width, payload_bytes);
}

void TokenShard::read(std::int64_t first, std::span<TokenId> tokens) const {
  WEFT_CHECK(first >= 0 && first + static_cast<std::int64_t>(tokens.size()) <= header_.num_tokens,
             "tokens [{}, {}) of a shard of {}", first,
             first + static_cast<std::int64_t>(tokens.size()), header_.num_tokens);
  const std::byte* from =
      payload().data() + static_cast<std::size_t>(first) * static_cast<std::size_t>(header_.width);
  switch (header_.width) {
    case TokenWidth::kU8:
      copy_tokens<std::uint8_t>(from, tokens);
      break;
    case TokenWidth::kU16:
      copy_tokens<std::uint16_t>(from, tokens);
      break;
    case TokenWidth::kU32:
      copy_tokens<std::uint32_t>(from, tokens);
      break;
  }
}

}  // namespace weft
