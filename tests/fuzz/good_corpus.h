// A small whole corpus, file by file.
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>

#include "base/file.h"
#include "corpus/byte_tokenizer.h"
#include "corpus/corpus_writer.h"
#include "tests/fuzz/fuzz_input.h"

namespace weft::fuzz {

inline constexpr std::array<std::string_view, 3> kGoodCorpusFiles = {"corpus.json", "index.bin",
                                                                     "tokens-00000.bin"};

// Name -> content. Two shards, three documents.
inline const std::map<std::string, std::string>& good_corpus() {
  static const auto kFiles = [] {
    const ScratchFolder folder;
    CorpusWriter writer(folder.path() / "c", describe(ByteTokenizer()), {.shard_tokens = 20});
    for (const std::string_view text : {"first", "a second document", "x"}) {
      std::vector<TokenId> tokens;
      ByteTokenizer().encode(text, tokens);
      writer.append(tokens);
      writer.end_document();
    }
    writer.finish({.num_records = 3});
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path() / "c")) {
      files[entry.path().filename()] = read_text_file(entry.path());
    }
    return files;
  }();
  return kFiles;
}

}  // namespace weft::fuzz
