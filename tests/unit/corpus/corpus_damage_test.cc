// Every kind of damage to every file of a corpus has its own message, and none crashes or allocates
// much.
#include <fcntl.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/binary_io.h"
#include "unit/corpus/corpus_fixture.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class CorpusDamageTest : public CorpusTest {
 protected:
  void SetUp() override {
    CorpusTest::SetUp();
    write("a.jsonl", jsonl_line("first") + jsonl_line("second document") + jsonl_line("third"));
    CorpusWriterOptions options;
    options.shard_tokens = 20;
    build("c", {"a.jsonl"}, BadRecordPolicy::kFail, options);
  }
  std::string file(const std::string& name) const { return read_text_file(folder_ / "c" / name); }
  void replace(const std::string& name, const std::string& content) const {
    write("c/" + name, content);
  }
  // Every byte of a binary file, a sample of the description, which is much longer.
  static std::size_t stride_of(const std::string& name) { return name == "corpus.json" ? 7 : 1; }
  std::string open_error() const {
    return user_error_of([&] { Corpus(folder_ / "c"); });
  }
  // The file with `value` at `offset` of its header, whose checksum is set right again.
  template <class T>
  std::string with_header_field(const std::string& name, std::size_t offset, T value) const {
    std::string content = file(name);
    std::memcpy(content.data() + offset, &value, sizeof(value));
    const std::uint64_t checksum = checksum64(std::as_bytes(std::span(content.data(), 56)));
    std::memcpy(content.data() + 56, &checksum, sizeof(checksum));
    return content;
  }
};

TEST_F(CorpusDamageTest, AFolderThatIsNoCorpusIsNamed) {
  EXPECT_THAT(user_error_of([&] { Corpus(folder_ / "absent"); }),
              AllOf(HasSubstr("absent"), HasSubstr("no such directory")));
  EXPECT_THAT(user_error_of([&] { Corpus(folder_ / "a.jsonl"); }), HasSubstr("no directory"));
  EXPECT_THAT(user_error_of([&] { Corpus{folder_}; }),
              AllOf(HasSubstr("is no corpus"), HasSubstr("corpus.json")));
}

TEST_F(CorpusDamageTest, EveryMissingFileIsNamed) {  // C052
  for (const std::string name :
       {"corpus.json", "index.bin", "tokens-00000.bin", "tokens-00001.bin"}) {
    const std::string content = file(name);
    fs::remove(folder_ / "c" / name);
    EXPECT_THAT(open_error(), HasSubstr(name));
    replace(name, content);
  }
  Corpus corpus(folder_ / "c");
}

TEST_F(CorpusDamageTest, AFileCutOrGrownAtAnyByteIsRefusedByName) {
  for (const std::string name :
       {"corpus.json", "index.bin", "tokens-00000.bin", "tokens-00001.bin"}) {
    const std::string content = file(name);
    for (std::size_t size = 0; size < content.size() - (name == "corpus.json" ? 2 : 0);
         size += stride_of(name)) {
      replace(name, content.substr(0, size));
      EXPECT_THAT(open_error(), HasSubstr(name)) << "cut to " << size;
    }
    for (const std::string more : {"x", "sixteen bytes !!"}) {
      replace(name, content + more);
      EXPECT_THAT(open_error(), HasSubstr(name)) << "grown by " << more;
    }
    replace(name, content);
  }
}

TEST_F(CorpusDamageTest, AFlippedBitAnywhereIsFoundWhenOpeningOrVerifying) {
  for (const std::string name :
       {"corpus.json", "index.bin", "tokens-00000.bin", "tokens-00001.bin"}) {
    const std::string content = file(name);
    for (std::size_t at = 0; at < content.size(); at += stride_of(name)) {
      std::string flipped = content;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << (at % 8)));
      replace(name, flipped);
      try {
        const Corpus corpus(folder_ / "c");
        verify_corpus(corpus, {});
        // White space between the values of the description carries nothing.
        EXPECT_TRUE(name == "corpus.json" && std::isspace(static_cast<unsigned char>(content[at])))
            << name << " byte " << at;
      } catch (const UserError& error) {
        EXPECT_THAT(error.what(), HasSubstr("c")) << name << " byte " << at;
      }
    }
    replace(name, content);
  }
}

TEST_F(CorpusDamageTest, OpeningChecksTheIndexAndLeavesTheTokensToVerify) {
  std::string content = file("tokens-00001.bin");
  content[64] = static_cast<char>(content[64] ^ 1);
  replace("tokens-00001.bin", content);
  const Corpus corpus(folder_ / "c");
  EXPECT_THAT(
      user_error_of([&] { verify_corpus(corpus, {}); }),
      AllOf(HasSubstr("tokens-00001.bin"), HasSubstr("checksum"), HasSubstr("corpus hash")));
}

TEST_F(CorpusDamageTest, WrongMagicNewVersionsAndUnknownCodesAreNamed) {
  for (const std::string name : {"index.bin", "tokens-00000.bin"}) {
    const std::string content = file(name);
    replace(name, "SOMEFILE" + content.substr(8));
    EXPECT_THAT(open_error(), AllOf(HasSubstr(name), HasSubstr("'SOMEFILE'"), HasSubstr("WEFT")));
    replace(name, content);
    replace(name, with_header_field(name, 8, std::uint32_t{2}));
    EXPECT_THAT(open_error(),
                AllOf(HasSubstr(name), HasSubstr("version 2"), HasSubstr("newer program")));
    replace(name, content);
  }
  const std::string content = file("tokens-00000.bin");
  for (const std::uint32_t code : {0U, 3U, 9U}) {
    replace("tokens-00000.bin", with_header_field("tokens-00000.bin", 12, code));
    EXPECT_THAT(open_error(),
                AllOf(HasSubstr("width code"), HasSubstr(fmt::format("found {}", code))));
  }
  replace("tokens-00000.bin", content);
  replace("index.bin", with_header_field("index.bin", 12, std::uint32_t{8}));
  EXPECT_THAT(open_error(), HasSubstr("entries of 16 bytes, found 8"));
}

TEST_F(CorpusDamageTest, HugeAndNegativeCountsAreRefusedWithoutAllocating) {
  for (const std::uint64_t count :
       {~std::uint64_t{0}, std::uint64_t{1} << 63, std::uint64_t{1} << 60, std::uint64_t{0}}) {
    const std::string index = file("index.bin");
    replace("index.bin", with_header_field("index.bin", 16, count));
    EXPECT_THAT(open_error(), AllOf(HasSubstr("index.bin"), HasSubstr("documents")));
    replace("index.bin", with_header_field("index.bin", 24, count));
    EXPECT_THAT(open_error(), HasSubstr("index.bin"));
    replace("index.bin", index);
    const std::string shard = file("tokens-00000.bin");
    replace("tokens-00000.bin", with_header_field("tokens-00000.bin", 24, count));
    EXPECT_THAT(open_error(), AllOf(HasSubstr("tokens-00000.bin"), HasSubstr("cut or has grown")));
    replace("tokens-00000.bin", shard);
  }
}

TEST_F(CorpusDamageTest, AnIndexThatIsSealedButWrongIsRefused) {
  const std::string content = file("index.bin");
  for (const std::int64_t start :
       {std::int64_t{-1}, std::int64_t{0}, std::int64_t{5}, std::int64_t{1} << 62,
        std::numeric_limits<std::int64_t>::min()}) {
    std::string wrong = content;
    std::memcpy(wrong.data() + 64 + 16, &start, sizeof(start));
    const std::uint64_t checksum = checksum64(std::as_bytes(std::span(wrong).subspan(64)));
    replace("index.bin", wrong);
    replace("index.bin", with_header_field("index.bin", 40, checksum));
    EXPECT_THAT(open_error(), HasSubstr("index.bin")) << start;
  }
}

TEST_F(CorpusDamageTest, FilesOfAnotherCorpusAreRefused) {
  write("b.jsonl", jsonl_line("tsrif") + jsonl_line("second document") + jsonl_line("third"));
  CorpusWriterOptions options;
  options.shard_tokens = 20;
  build("d", {"b.jsonl"}, BadRecordPolicy::kFail, options);
  replace("tokens-00000.bin", read_text_file(folder_ / "d" / "tokens-00000.bin"));
  EXPECT_THAT(open_error(), AllOf(HasSubstr("tokens-00000.bin"), HasSubstr("different corpora")));
  build("e", {"a.jsonl", "b.jsonl"});
  replace("index.bin", read_text_file(folder_ / "e" / "index.bin"));
  EXPECT_THAT(open_error(), AllOf(HasSubstr("index.bin"), HasSubstr("different corpora")));
}

TEST_F(CorpusDamageTest, ForeignAndNewerDescriptionsAreNamed) {
  replace("corpus.json", "[1, 2]");
  EXPECT_THAT(open_error(), AllOf(HasSubstr("corpus.json"), HasSubstr("weft-corpus")));
  replace("corpus.json", "{\"format\": 3}");
  EXPECT_THAT(open_error(), HasSubstr("corpus.json"));
  replace("corpus.json", R"({"format": "weft-corpus", "version": 2})");
  EXPECT_THAT(open_error(), AllOf(HasSubstr("version 2"), HasSubstr("newer program")));
  replace("corpus.json", std::string(100'000, '['));
  EXPECT_THAT(open_error(), HasSubstr("corpus.json"));
}

TEST_F(CorpusDamageTest, ADescriptionThatContradictsItselfIsRefused) {
  const CorpusDescription good = Corpus(folder_ / "c").description();
  const auto error_with = [&](const std::function<void(CorpusDescription&)>& change) {
    CorpusDescription wrong = good;
    change(wrong);
    replace("corpus.json", encode_description(wrong));
    return open_error();
  };
  EXPECT_THAT(error_with([](auto& d) { d.shard_tokens = 0; }), HasSubstr("at least 1 token"));
  EXPECT_THAT(error_with([](auto& d) { d.shards.clear(); }), HasSubstr("at least one shard"));
  EXPECT_THAT(error_with([](auto& d) { d.shards.pop_back(); }), HasSubstr("lack"));
  EXPECT_THAT(error_with([](auto& d) { d.shards.push_back(d.shards.back()); }),
              HasSubstr("a shard has"));
  EXPECT_THAT(error_with([](auto& d) { d.shard_tokens = 21; }), HasSubstr("a shard has"));
  EXPECT_THAT(error_with([](auto& d) { d.num_documents = 4; }), HasSubstr("different corpora"));
  EXPECT_THAT(error_with([](auto& d) { d.width = TokenWidth::kU32; }), HasSubstr("as u32"));
}

// The checksum is right, so only the value is wrong.
TEST_F(CorpusDamageTest, NumbersThatAreNoCountsAreRefusedInsteadOfConverted) {
  const auto good = nlohmann::json::parse(file("corpus.json"));
  for (const char* pointer :
       {"/num_documents", "/num_tokens", "/num_targets", "/shard_tokens", "/shards/0/num_tokens",
        "/tokenizer/vocab_size", "/tokenizer/end_token", "/build/num_records"}) {
    for (const char* value : {"1.5", "1e30", "-1", "18446744073709551615", "true", "\"3\""}) {
      auto wrong = good;
      wrong[nlohmann::json::json_pointer(pointer)] = nlohmann::json::parse(value);
      wrong.erase("checksum");
      const std::string values = wrong.dump();
      wrong["checksum"] = hex64(checksum64(std::as_bytes(std::span(values.data(), values.size()))));
      replace("corpus.json", wrong.dump());
      EXPECT_THAT(open_error(), AllOf(HasSubstr("corpus.json"), HasSubstr("whole number")))
          << pointer << " = " << value;
    }
  }
}

// 5 GiB in a sparse file: the third document lies beyond byte 4 GiB and token 2^31.
TEST_F(CorpusDamageTest, TokensBeyondFourGibibytesAndTwoToThe31AreRead) {  // C053
  constexpr std::int64_t kTokens = (std::int64_t{5} << 30) / 2;
  const std::vector<std::int64_t> starts = {0, 1000, (std::int64_t{1} << 31) + 77};
  std::vector<std::byte> entries;
  for (std::size_t i = 0; i < 3; ++i) {
    append_index_entry(starts[i], (i < 2 ? starts[i + 1] : kTokens) - starts[i] - 1, entries);
  }
  for (const std::int64_t shard_tokens : {kTokens, std::int64_t{1} << 30}) {
    const std::string name = fmt::format("large{}", shard_tokens);
    CorpusDescription description = Corpus(folder_ / "c").description();
    description.num_documents = 3;
    description.num_tokens = kTokens;
    description.num_targets = kTokens - 3;
    description.shard_tokens = shard_tokens;
    description.shards.clear();
    for (std::int64_t first = 0; first < kTokens; first += shard_tokens) {
      const TokenShardHeader header{TokenWidth::kU16, first,
                                    std::min(shard_tokens, kTokens - first), 0};
      const auto idx = static_cast<std::int64_t>(description.shards.size());
      const auto bytes = encode_header(header);
      const auto path = write(name + "/" + shard_file_name(idx).string(),
                              {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
      fs::resize_file(path, 64 + static_cast<std::uintmax_t>(header.num_tokens) * 2);
      description.shards.push_back({header.num_tokens, 0});
    }
    const std::int64_t at = starts[2] + 5;
    const std::array<std::uint16_t, 3> values = {11, 22, 33};
    const int fd = ::open((folder_ / name / shard_file_name(at / shard_tokens)).c_str(), O_WRONLY);
    ASSERT_EQ(::pwrite(fd, values.data(), 6, 64 + (at % shard_tokens) * 2), 6);
    ::close(fd);
    description.index_checksum = checksum64(entries);
    const auto index_header =
        encode_header(DocumentIndexHeader{3, kTokens, kTokens - 3, description.index_checksum});
    FileWriter index(folder_ / name / "index.bin");
    index.write(index_header);
    index.write(entries);
    index.close();
    write(name + "/corpus.json", encode_description(description));

    const Corpus corpus(folder_ / name);
    EXPECT_EQ(corpus.document(2).first_token, starts[2]);
    std::array<TokenId, 5> tokens{};
    corpus.read(corpus.document(2).first_token + 4, tokens);
    EXPECT_THAT(tokens, testing::ElementsAre(0, 11, 22, 33, 0));
    fs::remove_all(folder_ / name);
  }
}

}  // namespace
}  // namespace weft
