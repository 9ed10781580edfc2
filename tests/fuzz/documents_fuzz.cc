// Input files of a corpus build: text and jsonl, plain, gzip and zstd. First byte: which of these.
#include <array>

#include "corpus/byte_tokenizer.h"
#include "corpus/document_reader.h"
#include "corpus/utf8_text.h"
#include "tests/fuzz/fuzz_input.h"

namespace weft::fuzz {
namespace {

constexpr std::array<std::string_view, 6> kNames = {"d.txt",      "d.jsonl",   "d.txt.gz",
                                                    "d.jsonl.gz", "d.txt.zst", "d.jsonl.zst"};

void read_document(DocumentReader& reader) {
  const ByteTokenizer tokenizer;
  for (auto chunk = reader.next_chunk(); !chunk.empty(); chunk = reader.next_chunk()) {
    const auto flaw = find_text_flaw(chunk);
    WEFT_CHECK(!flaw || flaw->reason != BadRecordReason::kInvalidUtf8, "a chunk that is no UTF-8");
    std::vector<TokenId> tokens;
    tokenizer.encode(chunk, tokens);
    WEFT_CHECK(tokenizer.decode(tokens) == chunk, "a chunk came back changed");
  }
}

}  // namespace

void run_target(Input input) {
  if (input.empty()) return;
  const auto name = kNames[std::to_integer<std::size_t>(input[0]) % kNames.size()];
  const ScratchFolder folder;
  const auto reader = open_document_reader(folder.write(name, input.subspan(1)), "text");
  // As a build does that skips bad records.
  for (bool more = true; more;) {
    try {
      more = reader->next_document();
      if (more) read_document(*reader);
    } catch (const BadRecordError& bad) {
      WEFT_CHECK(std::string_view(bad.what()).find(name) != std::string_view::npos,
                 "a bad record without its file: {}", bad.what());
    }
  }
  const auto bytes = reader->input_bytes();
  WEFT_CHECK(0 <= bytes && bytes < static_cast<std::int64_t>(input.size()), "{} bytes read", bytes);
}

}  // namespace weft::fuzz
