#include "corpus/corpus_builder.h"

#include <simdjson.h>

#include "base/log.h"
#include "corpus/document_reader.h"
#include "corpus/source_tree.h"

namespace weft {
namespace {

constexpr std::int64_t kLoggedBadRecords = 5;

class CorpusBuild {
 public:
  CorpusBuild(const Tokenizer& tokenizer, const CorpusBuildOptions& options)
      : tokenizer_(tokenizer),
        options_(options),
        writer_(options.out, describe(tokenizer), options.writer) {
    for (const auto& input : options.inputs) build_.inputs.push_back(input.string());
    build_.text_key = options.text_key;
    build_.on_bad_record = options.on_bad_record;
  }

  CorpusDescription run() {
    InputFiles files(options_.inputs);
    while (const auto path = files.next()) read_file(*path);
    if (files.num_unfollowed_links() > 0) {
      log_warn(
          "corpus: {} links to directories inside the inputs were not followed; name their targets "
          "as inputs to "
          "read them",
          files.num_unfollowed_links());
    }
    const std::int64_t num_documents = writer_.num_documents();
    WEFT_USER_CHECK(num_documents > 0,
                    "corpus: nothing to write: {} files with {} records hold no document ({} "
                    "empty, {} skipped as "
                    "bad); check the inputs",
                    build_.num_files, build_.num_records, build_.num_empty, build_.num_skipped());
    WEFT_CHECK_EQ(build_.num_records, num_documents + build_.num_empty + build_.num_skipped(),
                  "records are documents, empty or skipped");
    return writer_.finish(build_);
  }

 private:
  void read_file(const std::filesystem::path& path) {
    const auto reader = open_document_reader(path, options_.text_key);
    ++build_.num_files;
    while (read_record(*reader)) {
    }
    build_.input_bytes += reader->input_bytes();
  }

  // One record: a document, an empty one, or a bad one. False behind the last.
  bool read_record(DocumentReader& reader) {
    bool is_counted = false;
    try {
      if (!reader.next_document()) return false;
      ++build_.num_records;
      is_counted = true;
      copy_document(reader);
    } catch (const BadRecordError& bad) {
      if (options_.on_bad_record == BadRecordPolicy::kFail) throw;
      if (!is_counted) ++build_.num_records;
      writer_.discard_document();
      if (build_.num_skipped() < kLoggedBadRecords) log_warn("skipped: {}", bad.what());
      if (build_.num_skipped() == kLoggedBadRecords)
        log_warn("skipped: more bad records, counted only");
      ++build_.skipped[static_cast<std::size_t>(bad.reason())];
    }
    return true;
  }

  void copy_document(DocumentReader& reader) {
    bool is_empty = true;
    rest_.clear();
    for (auto chunk = reader.next_chunk(); !chunk.empty(); chunk = reader.next_chunk()) {
      is_empty = false;
      encode(chunk, false);
      report(reader);
    }
    if (is_empty) {
      ++build_.num_empty;
      return;
    }
    encode({}, true);
    writer_.end_document();
    report(reader);
  }

  void encode(std::string_view text, bool is_last) {
    tokens_.clear();
    if (rest_.empty()) {
      rest_.assign(text.substr(tokenizer_.encode_part(text, is_last, tokens_)));
    } else {
      rest_ += text;
      rest_.erase(0, tokenizer_.encode_part(rest_, is_last, tokens_));
    }
    WEFT_CHECK(!is_last || rest_.empty(), "tokenizer {} left {} bytes of a document",
               tokenizer_.name(), rest_.size());
    writer_.append(tokens_);
  }

  void report(const DocumentReader& reader) {
    if (options_.on_progress) options_.on_progress(build_.input_bytes + reader.input_bytes());
  }

  const Tokenizer& tokenizer_;
  const CorpusBuildOptions& options_;
  CorpusWriter writer_;
  BuildDescription build_;
  std::vector<TokenId> tokens_;  // scratch
  std::string rest_;             // text that the tokenizer wants to see again with what follows
};

// Both are recorded in corpus.json, which is UTF-8; better refused now than after the whole build.
void check_utf8(std::string_view what, const std::string& text) {
  WEFT_USER_CHECK(simdjson::validate_utf8(text),
                  "corpus: {} must be valid UTF-8 to be recorded, got '{}'; rename it or name its "
                  "folder",
                  what, text);
}

}  // namespace

CorpusDescription build_corpus(const Tokenizer& tokenizer, const CorpusBuildOptions& options) {
  WEFT_USER_CHECK(!options.inputs.empty(), "corpus: expected at least one input, got none");
  check_utf8("--text-key", options.text_key);
  for (const auto& input : options.inputs) check_utf8("an input's path", input.string());
  refuse_output_inside_inputs(options.out, options.inputs);
  return CorpusBuild(tokenizer, options).run();
}

}  // namespace weft
