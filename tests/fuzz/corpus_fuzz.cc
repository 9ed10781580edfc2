// The files of a corpus. The input replaces one file of a good corpus. First byte: which file, and
// whether the checksums are made right again, so that the fuzzer gets past them.
#include <array>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "base/file.h"
#include "corpus/byte_tokenizer.h"
#include "corpus/corpus.h"
#include "corpus/data_order.h"
#include "corpus/file_header.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/good_corpus.h"

namespace weft::fuzz {
namespace {

constexpr std::size_t kChecksumAt = kFileHeaderBytes - sizeof(std::uint64_t);

void put(std::string& bytes, std::size_t offset, std::uint64_t value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(value));
}

std::uint64_t checksum_of(std::string_view bytes) {
  return checksum64(std::as_bytes(std::span(bytes.data(), bytes.size())));
}

// Where the header of each binary file keeps the checksum of what follows it: docs/formats.md.
void seal_binary(std::string& bytes, std::size_t payload_checksum_at) {
  if (bytes.size() < kFileHeaderBytes) return;
  const std::string_view all = bytes;
  put(bytes, payload_checksum_at, checksum_of(all.substr(kFileHeaderBytes)));
  put(bytes, kChecksumAt, checksum_of(all.substr(0, kChecksumAt)));
}

void seal_description(std::string& text) {
  auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return;
  json.erase("checksum");
  json["checksum"] = fmt::format("{:016x}", checksum_of(json.dump()));
  text = json.dump();
}

void read_all(const Corpus& corpus) {
  std::vector<TokenId> tokens(static_cast<std::size_t>(corpus.num_tokens().value()));
  corpus.read(0, tokens);
  verify_corpus(corpus, {});
  (void)ByteTokenizer().decode(tokens);
  const SequenceSet set(corpus, Tokens(5), OverLong::kSplit);
  DataOrder order(set, {.seed = 1, .global_batch_tokens = Tokens(16)});
  WEFT_CHECK(!order.next_step().empty(), "a step without a sequence");
}

}  // namespace

void run_target(Input input) {
  if (input.empty()) return;
  const auto selector = std::to_integer<std::size_t>(input[0]);
  const std::string_view name = kGoodCorpusFiles[selector / 2 % kGoodCorpusFiles.size()];
  std::string content(as_text(input.subspan(1)));
  if (selector % 2 == 1) {
    if (name == "corpus.json") seal_description(content);
    if (name == "index.bin") seal_binary(content, 40);
    if (name == "tokens-00000.bin") seal_binary(content, 32);
  }
  const ScratchFolder folder;
  for (const auto& [good_name, good] : good_corpus()) {
    folder.write(good_name, std::as_bytes(std::span(good.data(), good.size())));
  }
  folder.write(name, std::as_bytes(std::span(content.data(), content.size())));
  value_or_refusal([&] {
    read_all(Corpus(folder.path()));
    return true;
  });
  if (name != "corpus.json") return;
  const auto description = value_or_refusal([&] { return decode_description(content, "fuzz"); });
  if (!description) return;
  WEFT_CHECK(decode_description(encode_description(*description), "again") == *description,
             "a description reads back otherwise");
}

}  // namespace weft::fuzz
