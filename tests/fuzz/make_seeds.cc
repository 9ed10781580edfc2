// Writes tests/fuzz/seeds: a few small good files per target, made by the library's own writers.
//   ninja fuzz_seeds && build/.../fuzz_seeds tests/fuzz/seeds
#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>

#include <filesystem>

#include "base/file.h"
#include "checkpoint/checkpoint_manifest.h"
#include "cost/reference_cost.h"
#include "plan/plan_codec.h"
#include "plan/plan_slice.h"
#include "plan/planner.h"
#include "tests/fuzz/good_corpus.h"
#include "tests/support/random_plan.h"
#include "train/config.h"

namespace weft::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFrameBytes = 32;  // of plans and slices: docs/formats.md

std::string_view text_of(std::span<const std::byte> bytes) { return as_text(bytes); }

class SeedFolder {
 public:
  explicit SeedFolder(fs::path root) : root_(std::move(root)) {}
  void write(std::string_view target, std::string_view name, std::string_view content) const {
    fs::create_directories(root_ / target);
    write_file_atomically(root_ / target / name, content);
  }

 private:
  fs::path root_;
};

std::string gzip(std::string_view text) {
  z_stream state{};
  WEFT_CHECK(::deflateInit2(&state, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK,
             "zlib cannot start");
  std::string out(::deflateBound(&state, text.size()) + 64, '\0');
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  state.avail_in = static_cast<uInt>(text.size());
  state.next_out = reinterpret_cast<Bytef*>(out.data());
  state.avail_out = static_cast<uInt>(out.size());
  WEFT_CHECK(::deflate(&state, Z_FINISH) == Z_STREAM_END, "zlib cannot end");
  out.resize(state.total_out);
  ::deflateEnd(&state);
  return out;
}

std::string zstd(std::string_view text) {
  std::string out(::ZSTD_compressBound(text.size()), '\0');
  const std::size_t size = ::ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3);
  WEFT_CHECK(::ZSTD_isError(size) == 0, "zstd cannot compress");
  out.resize(size);
  return out;
}

void write_plans(const SeedFolder& seeds) {
  const auto write = [&](std::string_view name, const StepPlan& plan) {
    const auto bytes = encode_plan(plan);
    seeds.write("plan", fmt::format("{}_whole", name), fmt::format("{}{}", '\0', text_of(bytes)));
    seeds.write("plan", fmt::format("{}_payload", name),
                fmt::format("{}{}", '\1', text_of(bytes).substr(kFrameBytes)));
  };
  PlanRequest request;
  for (const std::int64_t tokens : {60, 30, 9, 8, 8, 1}) {
    request.sequences.push_back({.id = static_cast<std::int64_t>(request.sequences.size()),
                                 .tokens = Tokens(tokens),
                                 .num_targets = tokens - 1});
  }
  request.cluster = uniform_cluster(4, 4);
  request.cost = reference_cost_7b();
  request.options = {.capacity = Tokens(16)};
  for (const std::string& strategy : strategy_names()) {
    request.options.strategy = strategy;
    write(strategy, make_plan(request));
  }
  RandomPlanOptions options{.num_ranks = 3,
                            .sequences = random_sequences(1, 5, 20),
                            .capacity = Tokens(30),
                            .weighting = LossWeighting::kSample,
                            .seed = 1,
                            .allow_offload = true};
  const StepPlan random = random_plan(options);
  write("random", random);
  StepPlan empty;
  empty.capacity = Tokens(1);
  empty.ranks.resize(1);
  write("empty", empty);
  for (const std::int32_t rank : {0, 1, 2}) {
    const auto bytes = encode_slice(slice_plan(random, plan_hash(random), Rank(rank)));
    seeds.write("slice", fmt::format("rank{}_whole", rank),
                fmt::format("{}{}", '\0', text_of(bytes)));
    seeds.write("slice", fmt::format("rank{}_payload", rank),
                fmt::format("{}{}", '\1', text_of(bytes).substr(kFrameBytes)));
  }
}

void write_corpus_files(const SeedFolder& seeds) {
  for (std::size_t i = 0; i < kGoodCorpusFiles.size(); ++i) {
    const std::string& content = good_corpus().at(std::string(kGoodCorpusFiles[i]));
    for (const std::size_t is_sealed : {0, 1}) {
      seeds.write("corpus", fmt::format("{}_{}", kGoodCorpusFiles[i], is_sealed),
                  fmt::format("{}{}", static_cast<char>(2 * i + is_sealed), content));
    }
  }
}

void write_documents(const SeedFolder& seeds) {
  const std::string text = "plain text, \xc3\xa9\xe6\xbc\xa2\n\xf0\x9f\x98\x80 end";
  const std::string jsonl =
      "{\"text\": \"one \\u00e9\\ud83d\\ude00\", \"n\": [1, {\"a\": null}]}\n\n"
      "{\"id\": 7, \"text\": \"two\"}\r\n{\"text\": \"\"}\n{\"text\": 3}\n{\"text\": \"last\"}";
  const std::string members = gzip(jsonl.substr(0, 60)) + gzip(jsonl.substr(60));
  const std::string contents[] = {text,       jsonl,
                                  gzip(text), members,
                                  zstd(text), zstd(jsonl.substr(0, 60)) + zstd(jsonl.substr(60))};
  for (std::size_t kind = 0; kind < std::size(contents); ++kind) {
    seeds.write("documents", fmt::format("kind{}", kind),
                fmt::format("{}{}", static_cast<char>(kind), contents[kind]));
  }
  seeds.write("documents", "mark", fmt::format("{}\xef\xbb\xbf{}", '\1', jsonl));
}

void write_safetensors(const SeedFolder& seeds) {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
      R"("e":{"dtype":"BF16","shape":[0],"data_offsets":[8,8]},)"
      R"("b":{"dtype":"U8","shape":[],"data_offsets":[8,9]}})";
  seeds.write("safetensors", "header_and_data", fmt::format("{}{}123456789", '\1', header));
  seeds.write("safetensors", "whole",
              fmt::format("{}{}{}{}123456789", '\0', static_cast<char>(header.size()),
                          std::string(7, '\0'), header));
  seeds.write("safetensors", "empty", fmt::format("{}{{}}", '\1'));
}

void write_manifests(const SeedFolder& seeds) {
  CheckpointManifest manifest;
  manifest.position = {
      .step = 3, .num_updates = 2, .reader = {.seed = 1, .epoch = 1, .position = 4}};
  manifest.files = {{"state-0.safetensors", 100, 7}, {"state-1.safetensors", 50, 8}};
  manifest.tensors = {{"parameter/a", "F32", {2, 3}, {{0, 0, 4}, {1, 4, 6}}},
                      {"first_moment/b", "F64", {}, {{1, 0, 1}}}};
  seeds.write("manifest", "as_it_is", fmt::format("{}{}", '\0', encode_manifest(manifest)));
  seeds.write("manifest", "sealed", fmt::format("{}{}", '\1', encode_manifest(manifest)));
}

void write_configs(const SeedFolder& seeds) {
  const std::string needed =
      "[model]\nhidden_size = 8\nnum_layers = 1\nnum_heads = 2\nnum_kv_heads = 1\nhead_dim = 4\n"
      "intermediate_size = 8\n[data]\ncorpus = \"c\"\n";
  const TrainConfig config = parse_train_config(needed, "seed", {});
  seeds.write("train_config", "needed", needed);
  seeds.write("train_config", "all", to_toml(config));
  seeds.write("train_config", "overrides",
              needed + "[optimizer]\nlr = 1e-3 # note\n" + std::string("\0--optimizer.lr", 15) +
                  std::string("\0"
                              "2e-3\0--train.steps=4K\0--data.tail=drop",
                              40));
  seeds.write("cost", "reference", read_text_file("configs/cost/reference-7b.json"));
  seeds.write("tokenizer", "text", fmt::format("{}abc \xc3\xa9\xf0\x9f\x98\x80", '\6'));
  seeds.write("tokenizer", "ids", std::string("\0A\0\0\0\0\1\0\0\7\1\0\0", 13));
}

}  // namespace
}  // namespace weft::fuzz

// From the repository's root.
int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: fuzz_seeds FOLDER\n");
    return 2;
  }
  const weft::fuzz::SeedFolder seeds(argv[1]);
  weft::fuzz::write_plans(seeds);
  weft::fuzz::write_corpus_files(seeds);
  weft::fuzz::write_documents(seeds);
  weft::fuzz::write_safetensors(seeds);
  weft::fuzz::write_manifests(seeds);
  weft::fuzz::write_configs(seeds);
  return 0;
}
