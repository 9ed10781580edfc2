#include "cli/corpus_command.h"

#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/terminal.h"
#include "corpus/byte_tokenizer.h"
#include "corpus/corpus_builder.h"
#include "corpus/length_histogram.h"
#include "corpus/source_tree.h"

namespace weft {
namespace {

// While it lives, SIGINT, SIGTERM and SIGHUP wait to be asked for instead of ending the process, so
// that the build can remove what it has written. A signal that was sent and never asked for ends
// the process afterwards.
class StopSignals {
 public:
  StopSignals() {
    ::sigemptyset(&signals_);
    ::sigaddset(&signals_, SIGINT);
    ::sigaddset(&signals_, SIGTERM);
    ::sigaddset(&signals_, SIGHUP);
    ::pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  ~StopSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  void throw_if_stopped() const {
    const timespec no_wait{};
    const int signal = ::sigtimedwait(&signals_, nullptr, &no_wait);
    if (signal > 0)
      throw Error(
          fmt::format("corpus build stopped by {}; nothing was left behind", ::strsignal(signal)));
  }

 private:
  sigset_t signals_;
  sigset_t before_;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct BuildFlags {
  CorpusBuildOptions options;
  std::string on_bad_record = "fail";
  std::string shard_tokens = "1G";
};

void print_build(const CorpusDescription& corpus, const std::string& directory, double elapsed_s) {
  const BuildDescription& build = corpus.build;
  fmt::print("corpus    {}\n", directory);
  fmt::print("read      {} files, {}, {} records in {:.1f} s\n", build.num_files,
             format_bytes(Bytes(build.input_bytes)), build.num_records, elapsed_s);
  fmt::print("documents {}   empty {}   skipped {}\n", corpus.num_documents, build.num_empty,
             build.num_skipped());
  for (std::size_t i = 0; i < kNumBadRecordReasons; ++i) {
    if (build.skipped[i] == 0) continue;
    fmt::print("  skipped {:<20} {}\n", to_string(static_cast<BadRecordReason>(i)),
               build.skipped[i]);
  }
  fmt::print("tokens    {} (tokenizer {}, {} in {} shards)\n", corpus.num_tokens,
             corpus.tokenizer.name, to_string(corpus.width), corpus.shards.size());
  fmt::print("hash      {}\n", corpus.hash.hex());
}

void run_build(const BuildFlags& flags) {
  CorpusBuildOptions options = flags.options;
  WEFT_USER_CHECK(!options.out.empty(), "--out is empty; name the corpus directory to make");
  options.on_bad_record = parse_bad_record_policy(flags.on_bad_record, "--on-bad-record");
  options.writer.shard_tokens = parse_count(flags.shard_tokens, "--shard-tokens");
  const auto start = std::chrono::steady_clock::now();
  const InputSize size = measure_inputs(options.inputs);
  Progress progress("corpus build", size.num_bytes, Progress::Unit::kBytes);
  const StopSignals signals;
  options.on_progress = [&](std::int64_t input_bytes) {
    signals.throw_if_stopped();
    progress.update(input_bytes);
  };
  const CorpusDescription built = build_corpus(ByteTokenizer(), options);
  print_build(built, options.out.string(), seconds_since(start));
}

constexpr std::array kQuantiles = {0.5, 0.9, 0.99, 0.999, 1.0};
constexpr std::array kQuantileNames = {"p50", "p90", "p99", "p99.9", "max"};

void print_stats_json(const Corpus& corpus, const LengthHistogram& histogram) {
  nlohmann::ordered_json json;
  json["hash"] = corpus.hash().hex();
  json["tokenizer"] = corpus.description().tokenizer.name;
  json["num_documents"] = corpus.num_documents();
  json["num_tokens"] = corpus.num_tokens().value();
  json["num_targets"] = corpus.description().num_targets;
  const auto quantiles = length_quantiles(corpus, kQuantiles);
  for (std::size_t i = 0; i < kQuantiles.size(); ++i)
    json["length"][kQuantileNames[i]] = quantiles[i].value();
  json["buckets"] = nlohmann::ordered_json::array();
  for (std::size_t k = 0; k < histogram.buckets().size(); ++k) {
    const LengthBucket& bucket = histogram.buckets()[k];
    json["buckets"].push_back({{"min_tokens", std::int64_t{1} << k},
                               {"num_samples", bucket.num_samples},
                               {"num_tokens", bucket.tokens.value()}});
  }
  fmt::print("{}\n", json.dump(2));
}

void print_stats(const Corpus& corpus, const LengthHistogram& histogram) {
  fmt::print("corpus {}: {} documents, {} tokens, tokenizer {}\n\n", corpus.directory().string(),
             corpus.num_documents(), corpus.num_tokens(), corpus.description().tokenizer.name);
  fmt::print("{}\n", format_histogram(histogram, terminal_columns(STDOUT_FILENO)));
  const auto quantiles = length_quantiles(corpus, kQuantiles);
  fmt::print("length");
  for (std::size_t i = 0; i < kQuantiles.size(); ++i)
    fmt::print("  {} {}", kQuantileNames[i], quantiles[i]);
  fmt::print("  mean {:.1f}\n", ratio(corpus.num_tokens(), Tokens(corpus.num_documents())));
  fmt::print("hash   {}\n", corpus.hash().hex());
}

void run_verify(const std::string& directory) {
  const Corpus corpus(directory);
  const auto width = static_cast<std::int64_t>(corpus.description().width);
  {
    Progress progress("corpus verify", corpus.num_tokens().value() * width, Progress::Unit::kBytes);
    verify_corpus(corpus, [&](std::int64_t bytes) { progress.update(bytes); });
  }
  fmt::print("{}: whole; {} documents, {} tokens, hash {}\n", directory, corpus.num_documents(),
             corpus.num_tokens(), corpus.hash().hex());
}

void add_build(CLI::App& corpus) {
  auto flags = std::make_shared<BuildFlags>();
  CLI::App* build = corpus.add_subcommand(
      "build", "Make a corpus directory of text files, source trees and .jsonl");
  build->add_option("--out", flags->options.out, "Directory to make; must not exist yet")
      ->required()
      ->type_name("DIR");
  build
      ->add_option("INPUT", flags->options.inputs,
                   "Files and directories, in this order. *.jsonl: one document per line; any "
                   "other file: one "
                   "document; a directory: all files below it, by name, hidden ones left out; also "
                   ".gz and .zst")
      ->required()
      ->type_name("");
  build
      ->add_option("--text-key", flags->options.text_key,
                   "Key of the text in .jsonl objects (default: text)")
      ->type_name("KEY");
  build
      ->add_option(
          "--on-bad-record", flags->on_bad_record,
          "What to do with a record that is broken, not UTF-8 or binary: fail, or skip and count "
          "(default: fail)")
      ->type_name("fail|skip");
  build
      ->add_option(
          "--shard-tokens", flags->shard_tokens,
          "Tokens per token file, such as 64M or 1G; no effect on the corpus hash (default: 1G)")
      ->type_name("TOKENS");
  build->callback([flags] { run_build(*flags); });
}

void add_stats(CLI::App& corpus) {
  auto directory = std::make_shared<std::string>();
  auto is_json = std::make_shared<bool>(false);
  CLI::App* stats =
      corpus.add_subcommand("stats", "Show documents and tokens per length, and the corpus hash");
  stats->add_option("DIR", *directory, "Corpus directory")->required()->type_name("");
  stats->add_flag("--json", *is_json, "Print JSON instead of a table (default: off)");
  stats->callback([directory, is_json] {
    const Corpus opened(*directory);
    const LengthHistogram histogram = document_lengths(opened);
    *is_json ? print_stats_json(opened, histogram) : print_stats(opened, histogram);
  });
}

void add_verify(CLI::App& corpus) {
  auto directory = std::make_shared<std::string>();
  CLI::App* verify =
      corpus.add_subcommand("verify", "Read every token of a corpus and check all checksums");
  verify->add_option("DIR", *directory, "Corpus directory")->required()->type_name("");
  verify->callback([directory] { run_verify(*directory); });
}

}  // namespace

void add_corpus_command(CLI::App& app) {
  CLI::App* corpus =
      app.add_subcommand("corpus", "Build, inspect and check a corpus of token files");
  corpus->require_subcommand(1);
  add_build(*corpus);
  add_stats(*corpus);
  add_verify(*corpus);
}

}  // namespace weft
