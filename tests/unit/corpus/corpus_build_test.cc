#include "unit/corpus/corpus_fixture.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

using CorpusBuildTest = CorpusTest;

TEST_F(CorpusBuildTest, DocumentsComeBackEachWithOneEndToken) {
  write("a.txt", "hi");
  write("b.jsonl", jsonl_line("x") + jsonl_line("yz"));
  const CorpusDescription built = build("c", {"a.txt", "b.jsonl"});
  const Corpus corpus(folder_ / "c");
  EXPECT_THAT(tokens_of(corpus), ElementsAre('h', 'i', 256, 'x', 256, 'y', 'z', 256));
  EXPECT_EQ(corpus.document(2), (DocumentInfo{5, Tokens(3), 2}));
  EXPECT_EQ(corpus.description(), built);
  EXPECT_EQ(built.num_targets, 5);
  EXPECT_EQ(names_in_folder(), "a.txt b.jsonl c");
  verify_corpus(corpus, {});
}

TEST_F(CorpusBuildTest, EmptyDocumentsAreCountedAndLeftOut) {  // C049
  write("a.jsonl", "{\"text\": \"\"}\n{\"text\": \"hi\"}\n\n{\"text\": \"\"}\n");
  write("b.txt", "");
  const CorpusDescription built = build("c", {"a.jsonl", "b.txt"});
  EXPECT_EQ(built.num_documents, 1);
  EXPECT_EQ(built.build.num_records, 4);
  EXPECT_EQ(built.build.num_empty, 3);
  write("only_empty.jsonl", "{\"text\": \"\"}\n{\"text\": \"\"}\n");
  EXPECT_THAT(user_error_of([&] { build("d", {"only_empty.jsonl"}); }),
              HasSubstr("(2 empty, 0 skipped as bad)"));
  EXPECT_FALSE(fs::exists(folder_ / "d"));
}

TEST_F(CorpusBuildTest, EveryFormOfTheSameDocumentsGivesTheSameTokensAndHash) {
  constexpr std::uint64_t kSeed = 20261130;
  SCOPED_TRACE(fmt::format("seed {}", kSeed));
  const RandomStream random(kSeed, "documents");
  std::uint64_t index = 0;
  for (int round = 0; round < 8; ++round) {
    const auto num_documents = 1 + random.below(index++, 30);
    std::vector<std::string> documents;
    std::string jsonl;
    std::string odd_jsonl = "\xef\xbb\xbf";
    for (std::uint64_t i = 0; i < num_documents; ++i) {
      documents.push_back(
          random_text(random, index, 1 + random.below(index++, round == 7 ? 50'000 : 300)));
      // A mark at the start of a text file is no text, so the forms agree only without one.
      while (documents.back().starts_with("\xef\xbb\xbf"))
        documents.back() = fmt::format("x{}", documents.back());
      const std::string folder = fmt::format("r{}", round);
      write(fmt::format("{}/txt/{:04}.txt", folder, i), documents.back());
      write(fmt::format("{}/gz/{:04}.txt.gz", folder, i), gzip(documents.back()));
      write(fmt::format("{}/zst/{:04}.txt.zst", folder, i), zstd(documents.back()));
      jsonl += jsonl_line(documents.back());
      std::string line = jsonl_line(documents.back());
      line.pop_back();
      odd_jsonl += (i == 0 ? "" : "\r\n \r\n") + line;
    }
    const std::string r = fmt::format("r{}/", round);
    write(r + "a.jsonl", jsonl);
    write(r + "odd.jsonl", odd_jsonl);
    write(r + "b.jsonl.gz", gzip(jsonl));
    write(r + "c.jsonl.zst", zstd(jsonl));
    std::optional<Corpus> first;
    std::int64_t shard_tokens = 1;
    for (const std::string form :
         {"txt", "gz", "zst", "a.jsonl", "odd.jsonl", "b.jsonl.gz", "c.jsonl.zst"}) {
      CorpusWriterOptions options;
      options.shard_tokens = round == 7 ? 20'000 * shard_tokens : 100 * shard_tokens;
      options.pending_tokens = 64 * shard_tokens++;
      build(r + form + ".corpus", {r + form}, BadRecordPolicy::kFail, options);
      Corpus corpus(folder_ / (r + form + ".corpus"));
      verify_corpus(corpus, {});
      EXPECT_EQ(documents_of(corpus), documents) << form;
      if (!first) first.emplace(std::move(corpus));
      EXPECT_EQ(Corpus(folder_ / (r + form + ".corpus")).hash(), first->hash()) << form;
    }
  }
}

TEST_F(CorpusBuildTest, TheHashFollowsTokensBoundsAndOrder) {
  write("ab.jsonl", jsonl_line("a") + jsonl_line("b"));
  write("ba.jsonl", jsonl_line("b") + jsonl_line("a"));
  write("one.jsonl", jsonl_line("ab"));
  write("ac.jsonl", jsonl_line("a") + jsonl_line("c"));
  std::vector<std::string> hashes;
  for (const std::string name : {"ab", "ba", "one", "ac"})
    hashes.push_back(build(name, {name + ".jsonl"}).hash.hex());
  std::sort(hashes.begin(), hashes.end());
  EXPECT_EQ(std::unique(hashes.begin(), hashes.end()), hashes.end());
}

TEST_F(CorpusBuildTest, TheSameInputsGiveTheSameBytes) {
  write("a.jsonl", jsonl_line("one") + jsonl_line("two"));
  for (const std::string name : {"c", "d"}) build(name, {"a.jsonl"});
  for (const std::string file : {"corpus.json", "index.bin", "tokens-00000.bin"}) {
    EXPECT_EQ(read_text_file(folder_ / "c" / file), read_text_file(folder_ / "d" / file)) << file;
  }
}

TEST_F(CorpusBuildTest, BadRecordsStopTheBuildOrAreCountedByReason) {
  write("t/1.jsonl", jsonl_line("a") + "{\"text\": 3}\n" + "{\"text\": \"\"}\n" + "{\"t\": 3}\n" +
                         "x\n" + jsonl_line("b"));
  write("t/2.txt", "fine\xff");
  write("t/3.bin", std::string("a\0b", 3));
  write("t/4.txt.gz", gzip("cut").substr(0, 12));
  write("t/5.txt", "last");
  EXPECT_THAT(user_error_of([&] { build("c", {"t"}); }), HasSubstr("1.jsonl:2:10"));
  EXPECT_EQ(names_in_folder(), "t");
  const CorpusDescription built = build("c", {"t"}, BadRecordPolicy::kSkip);
  EXPECT_THAT(documents_of(Corpus(folder_ / "c")), ElementsAre("a", "b", "last"));
  const auto skipped = [&](BadRecordReason reason) {
    return built.build.skipped[static_cast<std::size_t>(reason)];
  };
  EXPECT_EQ(skipped(BadRecordReason::kWrongType), 1);
  EXPECT_EQ(skipped(BadRecordReason::kMissingKey), 1);
  EXPECT_EQ(skipped(BadRecordReason::kBadJson), 1);
  EXPECT_EQ(skipped(BadRecordReason::kInvalidUtf8), 1);
  EXPECT_EQ(skipped(BadRecordReason::kBinary), 1);
  EXPECT_EQ(skipped(BadRecordReason::kDamagedCompression), 1);
  EXPECT_EQ(built.build.num_skipped(), 6);
  EXPECT_EQ(built.build.num_records, 3 + 1 + 6);
}

TEST_F(CorpusBuildTest, EveryRecordIsADocumentEmptyOrSkipped) {
  constexpr std::uint64_t kSeed = 7;
  const RandomStream random(kSeed, "records");
  std::uint64_t index = 0;
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE(fmt::format("seed {} round {}", kSeed, round));
    std::array<std::int64_t, 3> counts{};
    std::string jsonl = jsonl_line("first");
    const auto num_lines = random.below(index++, 50);
    for (std::uint64_t i = 0; i < num_lines; ++i) {
      const auto kind = random.below(index++, 3);
      ++counts[kind];
      jsonl += kind == 0   ? jsonl_line("doc")
               : kind == 1 ? jsonl_line("")
                           : std::string("{broken\n");
      if (random.below(index++, 4) == 0) jsonl += "  \r\n";
    }
    const std::string name = fmt::format("r{}", round);
    write(name + ".jsonl", jsonl);
    const BuildDescription built = build(name, {name + ".jsonl"}, BadRecordPolicy::kSkip).build;
    EXPECT_EQ(Corpus(folder_ / name).num_documents(), counts[0] + 1);
    EXPECT_EQ(built.num_empty, counts[1]);
    EXPECT_EQ(built.num_skipped(), counts[2]);
    EXPECT_EQ(built.num_records, static_cast<std::int64_t>(num_lines) + 1);
  }
}

TEST_F(CorpusBuildTest, ALargeDocumentFoundBadHalfWayLeavesNoTrace) {
  CorpusWriterOptions options;
  options.shard_tokens = 1000;
  options.pending_tokens = 5000;
  write("t/1.txt", "before");
  write("t/2.txt", std::string(3'000'000, 'x') + "\xff");
  write("t/3.txt", std::string(2'500'000, 'y'));
  write("t/4.txt", "behind");
  write("clean/3.txt", std::string(2'500'000, 'y'));
  options.shard_tokens = 1'000'000;
  const CorpusDescription skipped = build("c", {"t"}, BadRecordPolicy::kSkip, options);
  const CorpusDescription clean =
      build("d", {"t/1.txt", "clean", "t/4.txt"}, BadRecordPolicy::kSkip, options);
  EXPECT_EQ(skipped.hash, clean.hash);
  EXPECT_EQ(skipped.shards, clean.shards);
  EXPECT_EQ(skipped.shards.size(), 3u);
  verify_corpus(Corpus(folder_ / "c"), {});
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "c"), {}), 5)
      << "description, index and three shards";
}

TEST_F(CorpusBuildTest, AnInterruptedBuildLeavesNothingAndALaterOneWorks) {
  for (int i = 0; i < 10; ++i) write(fmt::format("t/{}.txt", i), "document");
  CorpusBuildOptions options;
  options.out = folder_ / "c";
  options.inputs = {folder_ / "t"};
  int calls = 0;
  options.on_progress = [&](std::int64_t) {
    if (++calls == 7) throw Error("stop");
  };
  EXPECT_THROW(build_corpus(ByteTokenizer(), options), Error);
  EXPECT_EQ(names_in_folder(), "t");
  build("c", {"t"});
  EXPECT_EQ(Corpus(folder_ / "c").num_documents(), 10);
}

TEST_F(CorpusBuildTest, WhatAKilledBuildLeavesIsRefusedAndALaterBuildWorks) {
  write("a.txt", "document");
  build("whole", {"a.txt"});
  fs::rename(folder_ / "whole", folder_ / "c.incomplete-123");  // even with a description in it
  EXPECT_THAT(user_error_of([&] { Corpus(folder_ / "c.incomplete-123"); }),
              HasSubstr("did not finish"));
  build("c", {"a.txt"});
  EXPECT_THAT(documents_of(Corpus(folder_ / "c")), ElementsAre("document"));
}

TEST_F(CorpusBuildTest, AnExistingOutputIsRefusedAndLeftAlone) {
  write("a.txt", "document");
  build("c", {"a.txt"});
  write("a.txt", "other");
  EXPECT_THAT(user_error_of([&] { build("c", {"a.txt"}); }), HasSubstr("already exists"));
  EXPECT_THAT(documents_of(Corpus(folder_ / "c")), ElementsAre("document"));
}

TEST_F(CorpusBuildTest, ProgressCountsBytesOnDiskUpToTheirTotal) {
  write("t/a.txt", std::string(3'000'000, 'x'));
  write("t/b.jsonl.gz", gzip(jsonl_line("abc")));
  std::vector<std::int64_t> seen;
  CorpusBuildOptions options;
  options.out = folder_ / "c";
  options.inputs = {folder_ / "t"};
  options.on_progress = [&](std::int64_t bytes) { seen.push_back(bytes); };
  const auto built = build_corpus(ByteTokenizer(), options);
  EXPECT_GE(seen.size(), 4u) << "a large file reports while it is read";
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  EXPECT_EQ(seen.back(), built.build.input_bytes);
  EXPECT_EQ(built.build.input_bytes,
            static_cast<std::int64_t>(fs::file_size(folder_ / "t/a.txt") +
                                      fs::file_size(folder_ / "t/b.jsonl.gz")));
}

// Two bytes are one token, and an odd last byte another: parts of a text do not tokenise on their
// own.
class PairTokenizer final : public Tokenizer {
 public:
  std::string_view name() const override { return "pairs"; }
  std::int32_t vocab_size() const override { return 65536 + 256 + 1; }
  TokenId end_token() const override { return 65536 + 256; }
  std::size_t encode_part(std::string_view text, bool is_last,
                          std::vector<TokenId>& tokens) const override {
    std::size_t i = 0;
    for (; i + 2 <= text.size(); i += 2) tokens.push_back(byte(text[i]) * 256 + byte(text[i + 1]));
    if (is_last && i < text.size()) tokens.push_back(65536 + byte(text[i++]));
    return i;
  }
  std::string decode(std::span<const TokenId>) const override { return {}; }

 private:
  static TokenId byte(char c) { return static_cast<unsigned char>(c); }
};

TEST_F(CorpusBuildTest, ATokenizerMayWaitForWhatFollowsAndUseWideIds) {
  const std::string text = "x" + std::string(1'048'577, 'a') + "漢" + std::string(1'000'000, 'b');
  write("a.txt", text);
  CorpusBuildOptions options;
  options.out = folder_ / "c";
  options.inputs = {folder_ / "a.txt"};
  build_corpus(PairTokenizer(), options);
  const Corpus corpus(folder_ / "c");
  std::vector<TokenId> expected;
  PairTokenizer().encode(text, expected);
  expected.push_back(PairTokenizer().end_token());
  EXPECT_EQ(tokens_of(corpus), expected);
  EXPECT_EQ(corpus.description().width, TokenWidth::kU32);
  verify_corpus(corpus, {});
}

TEST_F(CorpusBuildTest, NarrowVocabulariesAreStoredInOneByte) {
  CorpusWriter writer(folder_ / "c", {"tiny", 4, 3}, {});
  writer.append(std::vector<TokenId>{0, 1, 2});
  writer.end_document();
  writer.finish({});
  const Corpus corpus(folder_ / "c");
  EXPECT_EQ(corpus.description().width, TokenWidth::kU8);
  EXPECT_THAT(tokens_of(corpus), ElementsAre(0, 1, 2, 3));
}

}  // namespace
}  // namespace weft
