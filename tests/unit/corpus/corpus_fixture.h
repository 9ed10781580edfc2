// What the corpus tests share: a folder per test, compressed files, corpora from documents, and
// error texts.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "corpus/byte_tokenizer.h"
#include "corpus/corpus.h"
#include "corpus/corpus_builder.h"

namespace weft {

class CorpusTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Writes a file below the folder; its directories are made.
  std::filesystem::path write(const std::string& name, std::string_view content) const;
  std::string names_in_folder() const;  // sorted, one space between

  // Builds `folder_ / name` from the inputs (relative to the folder) by the byte tokenizer.
  CorpusDescription build(const std::string& name, const std::vector<std::string>& inputs,
                          BadRecordPolicy policy = BadRecordPolicy::kFail,
                          CorpusWriterOptions writer = {}) const;
  // A corpus whose documents have exactly these numbers of tokens (end token included, so at least
  // 2 each).
  Corpus corpus_of_lengths(const std::string& name, const std::vector<std::int64_t>& lengths,
                           std::int64_t shard_tokens = 1 << 20) const;

  std::filesystem::path folder_;
};

std::string gzip(std::string_view text);
std::string zstd(std::string_view text);
std::string jsonl_line(std::string_view text, std::string_view key = "text");

// The texts of all documents, without their end tokens, which are checked to be there.
std::vector<std::string> documents_of(const Corpus& corpus);
std::vector<TokenId> tokens_of(const Corpus& corpus);

// Random valid UTF-8 without NUL, of about `size` bytes.
std::string random_text(const RandomStream& random, std::uint64_t& index, std::size_t size);

// The message of the UserError that `action` must raise.
std::string user_error_of(const std::function<void()>& action);

}  // namespace weft
