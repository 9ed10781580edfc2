#include "unit/corpus/corpus_fixture.h"

#include <zlib.h>
#include <zstd.h>

#include <fstream>

#include "base/log.h"

namespace weft {

namespace fs = std::filesystem;

void CorpusTest::SetUp() {
  const auto* info = testing::UnitTest::GetInstance()->current_test_info();
  folder_ = fs::path(testing::TempDir()) /
            fmt::format("weft_{}_{}", info->test_suite_name(), info->name());
  fs::remove_all(folder_);
  fs::create_directories(folder_);
  set_log_level(LogLevel::kError);  // the bad records of a test are in its expectations
}

fs::path CorpusTest::write(const std::string& name, std::string_view content) const {
  const fs::path path = folder_ / name;
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary)
      << content;  // no fsync: the damage tests write thousands of files
  return path;
}

std::string CorpusTest::names_in_folder() const {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder_))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return fmt::format("{}", fmt::join(names, " "));
}

CorpusDescription CorpusTest::build(const std::string& name, const std::vector<std::string>& inputs,
                                    BadRecordPolicy policy, CorpusWriterOptions writer) const {
  CorpusBuildOptions options;
  options.out = folder_ / name;
  for (const std::string& input : inputs) options.inputs.push_back(folder_ / input);
  options.on_bad_record = policy;
  options.writer = writer;
  return build_corpus(ByteTokenizer(), options);
}

Corpus CorpusTest::corpus_of_lengths(const std::string& name,
                                     const std::vector<std::int64_t>& lengths,
                                     std::int64_t shard_tokens) const {
  CorpusWriterOptions options;
  options.shard_tokens = shard_tokens;
  CorpusWriter writer(folder_ / name, describe(ByteTokenizer()), options);
  TokenId next = 0;
  for (const std::int64_t length : lengths) {
    std::vector<TokenId> tokens;
    for (std::int64_t i = 0; i + 1 < length; ++i) tokens.push_back(next++ % 251);
    writer.append(tokens);
    writer.end_document();
  }
  writer.finish({});
  return Corpus(folder_ / name);
}

std::string gzip(std::string_view text) {
  z_stream state{};
  deflateInit2(&state, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&state, text.size()) + 64, '\0');
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  state.avail_in = static_cast<uInt>(text.size());
  state.next_out = reinterpret_cast<Bytef*>(out.data());
  state.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&state, Z_FINISH), Z_STREAM_END);
  out.resize(state.total_out);
  deflateEnd(&state);
  return out;
}

std::string zstd(std::string_view text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  const std::size_t size = ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3);
  EXPECT_FALSE(ZSTD_isError(size));
  out.resize(size);
  return out;
}

std::string jsonl_line(std::string_view text, std::string_view key) {
  const auto quoted = [](std::string_view raw) {
    std::string out = "\"";
    for (const char c : raw) {
      if (c == '"' || c == '\\') out += '\\';
      if (static_cast<unsigned char>(c) >= 0x20) {
        out += c;
      } else {
        out += fmt::format("\\u{:04x}", c);
      }
    }
    return out + '"';
  };
  return fmt::format("{{{}:{}}}\n", quoted(key), quoted(text));
}

std::vector<TokenId> tokens_of(const Corpus& corpus) {
  std::vector<TokenId> tokens(static_cast<std::size_t>(corpus.num_tokens().value()));
  corpus.read(0, tokens);
  return tokens;
}

std::vector<std::string> documents_of(const Corpus& corpus) {
  std::vector<std::string> documents;
  for (std::int64_t i = 0; i < corpus.num_documents(); ++i) {
    const DocumentInfo info = corpus.document(i);
    std::vector<TokenId> tokens(static_cast<std::size_t>(info.tokens.value()));
    corpus.read(info.first_token, tokens);
    EXPECT_EQ(tokens.back(), kByteEndToken);
    tokens.pop_back();
    documents.push_back(ByteTokenizer().decode(tokens));
  }
  return documents;
}

std::string random_text(const RandomStream& random, std::uint64_t& index, std::size_t size) {
  constexpr std::string_view kPieces[] = {"a",
                                          "Z",
                                          "0",
                                          " ",
                                          "\n",
                                          "\r\n",
                                          "\t",
                                          "\"",
                                          "\\",
                                          "\x01",
                                          "\x7f",
                                          "é",
                                          "ß",
                                          "漢",
                                          "\xef\xbb\xbf",
                                          "😀",
                                          "\xf4\x8f\xbf\xbf"};
  std::string text;
  while (text.size() < size) text += kPieces[random.below(index++, std::size(kPieces))];
  return text;
}

std::string user_error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const UserError& error) {
    return error.what();
  }
  ADD_FAILURE() << "a UserError was expected";
  return {};
}

}  // namespace weft
