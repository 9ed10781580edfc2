#include "corpus/corpus_description.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/binary_io.h"
#include "corpus/document_index.h"

namespace weft {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kFormat = "weft-corpus";

// The library would convert without a word: 1.5 to 1, 2^40 to 0 in 32 bits.
template <class Integer = std::int64_t>
Integer integer_at(const Json& json, const char* key, const std::string& what) {
  const Json& value = json.at(key);
  const bool fits =
      value.is_number_unsigned() &&
      value.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<Integer>::max());
  WEFT_USER_CHECK(fits, "{}: expected a whole number from 0 to {} for \"{}\", found {}", what,
                  std::numeric_limits<Integer>::max(), key, value.dump());
  return value.get<Integer>();
}

std::string checksum_of(const Json& json) {
  return hex64(checksum64(json.dump()));
}

Json to_json(const BuildDescription& build) {
  Json skipped = Json::object();
  for (std::size_t i = 0; i < kNumBadRecordReasons; ++i) {
    skipped[std::string(to_string(static_cast<BadRecordReason>(i)))] = build.skipped[i];
  }
  return {{"inputs", build.inputs},
          {"text_key", build.text_key},
          {"on_bad_record", to_string(build.on_bad_record)},
          {"num_files", build.num_files},
          {"input_bytes", build.input_bytes},
          {"num_records", build.num_records},
          {"num_empty", build.num_empty},
          {"skipped", skipped}};
}

BuildDescription build_from_json(const Json& json, const std::string& what) {
  BuildDescription build;
  build.inputs = json.at("inputs").get<std::vector<std::string>>();
  build.text_key = json.at("text_key").get<std::string>();
  build.on_bad_record = parse_bad_record_policy(json.at("on_bad_record").get<std::string>(),
                                                what + ": on_bad_record");
  build.num_files = integer_at(json, "num_files", what);
  build.input_bytes = integer_at(json, "input_bytes", what);
  build.num_records = integer_at(json, "num_records", what);
  build.num_empty = integer_at(json, "num_empty", what);
  for (std::size_t i = 0; i < kNumBadRecordReasons; ++i) {
    const std::string reason(to_string(static_cast<BadRecordReason>(i)));
    build.skipped[i] = integer_at(json.at("skipped"), reason.c_str(), what);
  }
  return build;
}

Json to_json(const CorpusDescription& description) {
  Json shards = Json::array();
  for (std::size_t i = 0; i < description.shards.size(); ++i) {
    shards.push_back({{"file", shard_file_name(static_cast<std::int64_t>(i)).string()},
                      {"num_tokens", description.shards[i].num_tokens},
                      {"checksum", hex64(description.shards[i].checksum)}});
  }
  return {
      {"format", kFormat},
      {"version", kCorpusVersion},
      {"tokenizer",
       {{"name", description.tokenizer.name},
        {"vocab_size", description.tokenizer.vocab_size},
        {"end_token", description.tokenizer.end_token}}},
      {"token_width", to_string(description.width)},
      {"num_documents", description.num_documents},
      {"num_tokens", description.num_tokens},
      {"num_targets", description.num_targets},
      {"shard_tokens", description.shard_tokens},
      {"shards", shards},
      {"index", {{"file", kDocumentIndexFile}, {"checksum", hex64(description.index_checksum)}}},
      {"hash", description.hash.hex()},
      {"build", to_json(description.build)}};
}

TokenWidth parse_width(const std::string& text, const std::string& what) {
  for (const TokenWidth width : {TokenWidth::kU8, TokenWidth::kU16, TokenWidth::kU32}) {
    if (text == to_string(width)) return width;
  }
  throw_user_error("{}: expected token_width u8, u16 or u32, found '{}'", what, text);
}

CorpusDescription from_json(const Json& json, const std::string& what) {
  CorpusDescription description;
  const Json& tokenizer = json.at("tokenizer");
  description.tokenizer = {tokenizer.at("name").get<std::string>(),
                           integer_at<std::int32_t>(tokenizer, "vocab_size", what),
                           integer_at<TokenId>(tokenizer, "end_token", what)};
  description.width = parse_width(json.at("token_width").get<std::string>(), what);
  description.num_documents = integer_at(json, "num_documents", what);
  description.num_tokens = integer_at(json, "num_tokens", what);
  description.num_targets = integer_at(json, "num_targets", what);
  description.shard_tokens = integer_at(json, "shard_tokens", what);
  for (const Json& shard : json.at("shards")) {
    description.shards.push_back({integer_at(shard, "num_tokens", what),
                                  parse_hex64(shard.at("checksum").get<std::string>(), what)});
  }
  description.index_checksum =
      parse_hex64(json.at("index").at("checksum").get<std::string>(), what);
  description.hash = parse_hash128(json.at("hash").get<std::string>(), what);
  description.build = build_from_json(json.at("build"), what);
  return description;
}

void check_shards(const CorpusDescription& description, const std::string& what) {
  WEFT_USER_CHECK(description.shard_tokens >= 1 && !description.shards.empty(),
                  "{}: expected at least one shard of at least 1 token, found {} of {} tokens",
                  what, description.shards.size(), description.shard_tokens);
  std::int64_t left = description.num_tokens;
  for (const ShardDescription& shard : description.shards) {
    const std::int64_t expected = std::min(left, description.shard_tokens);
    WEFT_USER_CHECK(expected >= 1 && shard.num_tokens == expected,
                    "{}: a shard has {} tokens, expected {}: {} tokens in shards of {}", what,
                    shard.num_tokens, expected, description.num_tokens, description.shard_tokens);
    left -= expected;
  }
  WEFT_USER_CHECK(left == 0, "{}: its {} shards lack {} of the corpus's {} tokens", what,
                  description.shards.size(), left, description.num_tokens);
}

}  // namespace

TokenizerDescription describe(const Tokenizer& tokenizer) {
  return {std::string(tokenizer.name()), tokenizer.vocab_size(), tokenizer.end_token()};
}

std::int64_t BuildDescription::num_skipped() const {
  return std::accumulate(skipped.begin(), skipped.end(), std::int64_t{0});
}

std::string encode_description(const CorpusDescription& description) {
  Json json = to_json(description);
  json["checksum"] = checksum_of(json);
  return json.dump(2) + "\n";
}

CorpusDescription decode_description(std::string_view text, const std::string& what) {
  try {
    Json json = Json::parse(text);
    WEFT_USER_CHECK(json.is_object() && json.value("format", "") == kFormat,
                    "{}: expected \"format\": \"{}\", found another JSON file", what, kFormat);
    const auto version = integer_at(json, "version", what);
    WEFT_USER_CHECK(
        version >= 1 && version <= kCorpusVersion,
        "{}: this corpus has version {}, this program reads versions 1 to {}: read it with a newer "
        "program",
        what, version, kCorpusVersion);
    const auto stored = json.at("checksum").get<std::string>();
    json.erase("checksum");
    const std::string computed = checksum_of(json);
    WEFT_USER_CHECK(stored == computed,
                    "{}: damaged or edited by hand: its checksum is {}, its values give {}; build "
                    "the corpus again",
                    what, stored, computed);
    CorpusDescription description = from_json(json, what);
    check_shards(description, what);
    return description;
  } catch (const Json::exception& error) {
    throw_user_error("{}: expected the description of a corpus, found something else: {}", what,
                     error.what());
  }
}

Hash128 combine_corpus_hash(const TokenizerDescription& tokenizer, Hash128 token_hash,
                            Hash128 index_hash) {
  ByteWriter writer;
  writer.write_string("weft corpus content 1");
  writer.write_string(tokenizer.name);
  writer.write(tokenizer.vocab_size);
  writer.write(tokenizer.end_token);
  for (const Hash128& hash : {token_hash, index_hash}) {
    writer.write(hash.high);
    writer.write(hash.low);
  }
  return hash128(writer.bytes());
}

}  // namespace weft
