// build_corpus: input files to a corpus directory, in one pass and bounded memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "corpus/corpus_writer.h"
#include "corpus/tokenizer.h"

namespace weft {

struct CorpusBuildOptions {
  std::filesystem::path out;                  // must not exist
  std::vector<std::filesystem::path> inputs;  // files and directories, read in this order
  std::string text_key = "text";              // of jsonl objects
  BadRecordPolicy on_bad_record = BadRecordPolicy::kFail;
  CorpusWriterOptions writer;
  // Called after each chunk with the input bytes read so far (on disk). May throw to stop the
  // build, which then leaves nothing behind.
  std::function<void(std::int64_t input_bytes)> on_progress;
};

// UserError when an input is bad (policy fail), when nothing is left to write, or when the output
// exists. Under policy skip the first few bad records are logged; all are counted in the
// description.
CorpusDescription build_corpus(const Tokenizer& tokenizer, const CorpusBuildOptions& options);

}  // namespace weft
