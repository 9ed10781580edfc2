#include "corpus/document_reader.h"

#include "corpus/utf8_text.h"
#include "unit/corpus/corpus_fixture.h"

namespace weft {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class DocumentReaderTest : public CorpusTest {
 protected:
  // Reads on behind bad records and lists their messages.
  std::vector<std::string> read(const std::string& name,
                                std::vector<std::string>* bad = nullptr) const {
    const auto reader = open_document_reader(folder_ / name, "text");
    std::vector<std::string> documents;
    for (;;) {
      try {
        if (!reader->next_document()) return documents;
        std::string text;
        for (auto chunk = reader->next_chunk(); !chunk.empty(); chunk = reader->next_chunk()) {
          EXPECT_FALSE(chunk.size() > 2 && (chunk[0] & 0xc0) == 0x80)
              << "a chunk starts inside a code point";
          text += chunk;
        }
        documents.push_back(text);
      } catch (const BadRecordError& error) {
        if (bad == nullptr) throw;
        bad->push_back(error.what());
      }
    }
  }
  std::string bad_line(std::string_view line) const {
    write("bad.jsonl", jsonl_line("before") + std::string(line) + "\n" + jsonl_line("behind"));
    std::vector<std::string> bad;
    EXPECT_THAT(read("bad.jsonl", &bad), ElementsAre("before", "behind")) << line;
    EXPECT_EQ(bad.size(), 1u) << line;
    return bad.empty() ? "" : bad[0];
  }
};

TEST_F(DocumentReaderTest, MarksLineEndsAndAMissingLastNewlineDoNotMatterInJsonl) {  // C046
  write("clean.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n");
  write("odd.jsonl", "\xef\xbb\xbf{\"text\": \"one\"}\r\n\r\n \t\n{\"text\": \"two\"}");
  EXPECT_EQ(read("odd.jsonl"), read("clean.jsonl"));
  EXPECT_THAT(read("odd.jsonl"), ElementsAre("one", "two"));
}

TEST_F(DocumentReaderTest, ATextFileIsOneDocumentWithItsLineEndsAndWithoutItsMark) {
  write("a.txt", "\xef\xbb\xbfone\r\ntwo");
  EXPECT_THAT(read("a.txt"), ElementsAre("one\r\ntwo"));
  for (const std::string_view empty : {"", "\xef\xbb\xbf"}) {
    write("b.txt", empty);
    EXPECT_THAT(read("b.txt"), ElementsAre(""));
  }
  for (const std::string_view tiny : {"a", "ab", "é",
                                      "\xef\xbb\xbf"
                                      "a"}) {
    write("c.txt", tiny);
    EXPECT_EQ(read("c.txt")[0], tiny.starts_with("\xef\xbb\xbf") ? tiny.substr(3) : tiny);
  }
}

TEST_F(DocumentReaderTest, EscapesBecomeText) {
  write(
      "a.jsonl",
      R"({"id": 1, "text": "\u00e9\n\"\\\/\ud83d\ude00\u0000", "deep": {"x": [1, 2.5e3, null, true]}})");
  EXPECT_THAT(read("a.jsonl"), ElementsAre(std::string("é\n\"\\/😀") + '\0'));
}

TEST_F(DocumentReaderTest, NumbersThatFitNoMachineTypeAreStillJson) {
  write("a.jsonl",
        R"({"id": 123456789012345678901234567890, "x": [1e999, -0.5E+3, 0], "text": "a"})");
  EXPECT_THAT(read("a.jsonl"), ElementsAre("a"));
}

TEST_F(DocumentReaderTest, TwoObjectsOnALineAreNamedWithFileLineAndColumn) {  // C047
  EXPECT_THAT(bad_line(R"({"text": "a"}{"text": "b"})"),
              AllOf(HasSubstr("bad.jsonl:2:14 (byte 31)"), HasSubstr("one JSON object per line"),
                    HasSubstr("--on-bad-record skip"), HasSubstr("(several_values)")));
}

TEST_F(DocumentReaderTest, EveryKindOfBrokenLineIsOneBadRecordAndTheRestIsRead) {
  for (const std::string_view line : {R"({"text": "a")",
                                      R"({"text": "a"} x)",
                                      R"({"text": "a",})",
                                      R"({"text": "a", "b": tru})",
                                      R"({"text": "a" "b": 1})",
                                      R"({"text": "a", "b": nulls})",
                                      R"({"text": "a", "b": 01})",
                                      R"({"text": "a", "b": 1.})",
                                      R"({"text": "a", "b": 1e})",
                                      R"({"text": "a", "b": -})",
                                      R"({"text": "a", "b": [1 2]})",
                                      R"({"text": "a", "b": [})",
                                      R"({"text": "a\q"})",
                                      R"({"text": "\ud800"})",
                                      R"({"text": "\udc00x"})",
                                      R"({"b": "\q", "text": "a"})",
                                      R"({1: 2})",
                                      R"({"text" "a"})",
                                      "{",
                                      "}",
                                      "x",
                                      R"({"text": "un)",
                                      R"({"text": "tab	inside"})",
                                      R"({"text": "a"} //)"}) {
    EXPECT_THAT(bad_line(line), AllOf(HasSubstr("bad.jsonl:2:"), HasSubstr("(bad_json)"))) << line;
  }
  EXPECT_THAT(bad_line(R"({"text": "a"}})"), HasSubstr("(several_values)"));
  EXPECT_THAT(bad_line(R"({"txt": "a"})"),
              AllOf(HasSubstr("key 'text' (--text-key)"), HasSubstr("(missing_key)")));
  EXPECT_THAT(bad_line("{}"), HasSubstr("(missing_key)"));
  EXPECT_THAT(bad_line(R"({"text": "a", "text": "b"})"), HasSubstr("(duplicate_key)"));
  for (const std::string_view line :
       {"[1]", "3", R"("x")", "null", "true", R"({"text": null})", R"({"text": ["a"]})",
        R"({"text": {"text": "a"}})", R"({"text": 3})"}) {
    EXPECT_THAT(bad_line(line), HasSubstr("(wrong_type)")) << line;
  }
  EXPECT_THAT(bad_line("{\"text\": \"a\xff\"}"),
              AllOf(HasSubstr(":2:12 "), HasSubstr("(invalid_utf8)"), HasSubstr("ff")));
  EXPECT_THAT(bad_line(std::string("{\"text\": \"a") + '\0' + "\"}"),
              AllOf(HasSubstr(":2:12 "), HasSubstr("(binary)")));
  const std::string deep(5000, '[');
  EXPECT_THAT(bad_line("{\"b\": " + deep + std::string(5000, ']') + "}"), HasSubstr("nested"));
}

TEST_F(DocumentReaderTest, ABadTextIsNamedWithLineColumnAndOffsetBehindManyChunks) {
  const std::string lines(3'000'000, 'a');
  for (const auto& [bytes, reason] : {std::pair{std::string("\xff"), "(invalid_utf8)"},
                                      {std::string(1, '\0'), "(binary)"},
                                      {std::string("\xe6\xbc"), "(invalid_utf8)"}}) {
    write("a.txt", "\xef\xbb\xbfone\n" + lines + "\nxyz" + bytes);
    EXPECT_THAT(user_error_of([&] { read("a.txt"); }),
                AllOf(HasSubstr("a.txt:3:4 (byte 3000011)"), HasSubstr(reason)));
  }
}

TEST_F(DocumentReaderTest, CodePointsAcrossTheEdgesOfChunksAreWhole) {
  for (std::size_t shift = 0; shift < 4; ++shift) {
    std::string text((std::size_t{1} << 20) - 8 + shift, 'a');
    for (int i = 0; i < 600'000; ++i) text += "😀";
    write("a.txt", text);
    EXPECT_EQ(read("a.txt")[0], text);
    write("a.jsonl", jsonl_line(text));
    EXPECT_EQ(read("a.jsonl")[0], text);
  }
}

TEST_F(DocumentReaderTest, LinesLongerThanTheBufferAreReadWhole) {
  const std::string longest(5'000'000, 'b');
  write("a.jsonl", jsonl_line("a") + jsonl_line(longest) + jsonl_line("c"));
  const auto documents = read("a.jsonl");
  ASSERT_EQ(documents.size(), 3u);
  EXPECT_EQ(documents[1], longest);
  EXPECT_EQ(documents[2], "c");
}

TEST_F(DocumentReaderTest, CompressedFilesReadLikePlainOnesAlsoInSeveralParts) {
  std::uint64_t index = 0;
  const std::string text = random_text(RandomStream(5, "compressed"), index, 2'000'000);
  const std::string half =
      text.substr(0, complete_utf8_prefix(std::string_view(text).substr(0, text.size() / 2)));
  const std::string rest = text.substr(half.size());
  write("a.txt.gz", gzip(text));
  write("b.txt.gz", gzip(half) + gzip("") + gzip(rest) + std::string(1000, '\0'));
  write("a.txt.zst", zstd(text));
  write("b.txt.zst", zstd(half) + zstd("") + zstd(rest));
  for (const std::string name : {"a.txt.gz", "b.txt.gz", "a.txt.zst", "b.txt.zst"}) {
    EXPECT_THAT(read(name), ElementsAre(text)) << name;
  }
  write("a.jsonl.gz", gzip(jsonl_line("x") + jsonl_line("y")));
  EXPECT_THAT(read("a.jsonl.gz"), ElementsAre("x", "y"));
}

TEST_F(DocumentReaderTest, ATruncatedOrDamagedCompressedFileIsABadRecordBehindItsWholeLines) {
  std::string lines;
  for (int i = 0; i < 20'000; ++i)
    lines += jsonl_line(fmt::format("document {}", i * 7919 % 20'000));
  for (const std::string name : {"a.jsonl.gz", "a.jsonl.zst"}) {
    const std::string whole = name.ends_with(".gz") ? gzip(lines) : zstd(lines);
    for (const std::size_t size :
         {std::size_t{0}, std::size_t{1}, std::size_t{7}, whole.size() / 2, whole.size() - 1}) {
      write(name, whole.substr(0, size));
      std::vector<std::string> bad;
      const auto documents = read(name, &bad);
      ASSERT_EQ(bad.size(), 1u) << name << " cut to " << size;
      EXPECT_THAT(bad[0], AllOf(HasSubstr(name), HasSubstr("(damaged_compression)"),
                                HasSubstr("compressed byte")));
      EXPECT_LT(documents.size(), 20'001u);
      EXPECT_THAT(bad[0], HasSubstr(fmt::format("{}:{}:", name, documents.size() + 1)));
    }
    std::string flipped = whole;
    flipped[flipped.size() / 2] ^= 0x20;
    write(name, flipped);
    std::vector<std::string> bad;
    read(name, &bad);
    EXPECT_FALSE(bad.empty());
    write(name, "plain text, not compressed at all");
    EXPECT_THAT(user_error_of([&] { read(name); }), HasSubstr("(damaged_compression)"));
  }
  write("b.txt.gz", gzip("a") + "trailing");
  EXPECT_THAT(user_error_of([&] { read("b.txt.gz"); }), HasSubstr("behind the end"));
}

TEST_F(DocumentReaderTest, AMissingFileIsNoBadRecord) {
  for (const std::string name : {"absent.txt", "absent.jsonl.gz"}) {
    try {
      read(name);
      FAIL();
    } catch (const BadRecordError&) {
      FAIL() << "the policy for bad records must not skip what the file system refuses";
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("absent"), HasSubstr("No such file")));
    }
  }
}

}  // namespace
}  // namespace weft
