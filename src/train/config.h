// TrainConfig: everything a training run is told, and how it is read. One table of fields
// (config_schema.h) drives the TOML reader, the dotted overrides of the command line, range checks,
// printing, comparison and the help text, so no key can be parsed and then forgotten, and none can
// be known to one of these and not to another.
//
// Invariants: an unknown or misspelt key or section, a wrong type, a value outside its range and a
// contradiction between keys are UserErrors that name the key, its place (file:line:column or
// --section.key), what was expected and what was found, before anything heavy starts. to_toml() of
// a configuration reads back as an equal one. No tensor type is seen here.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "model/model_config.h"

namespace weft {

struct DataConfig {
  std::string corpus;                          // directory that `weft corpus build` made
  Tokens global_batch_tokens = Tokens(65536);  // most tokens of one step
  Tokens max_context = Tokens(16384);          // longest sequence
  std::string over_long = "error";             // error | split
  std::string tail = "carry";                  // carry | drop
  std::int64_t seed = 0;                       // of the data order
  std::string weighting = "token";             // token | sample
  friend bool operator==(const DataConfig&, const DataConfig&) = default;
};

struct PlanConfig {
  std::string strategy = "hdp";  // one of strategy_names()
  Tokens capacity = Tokens(0);   // per rank and micro-batch; 0: what the memory budget allows
  std::string cost;              // cost file; empty: the built-in estimate
  std::int64_t steps_ahead = 1;  // planned while a step runs
  friend bool operator==(const PlanConfig&, const PlanConfig&) = default;
};

struct MemoryConfig {
  std::string recompute = "none";       // none | attention | full
  Bytes budget_bytes = Bytes(0);        // of one rank; 0: no limit
  std::string offload = "none";         // none | disk
  std::string offload_path = "";        // folder on a local disk; empty: train.out
  double offload_bytes_per_second = 0;  // of one rank, the slower direction; 0: measured once
  friend bool operator==(const MemoryConfig&, const MemoryConfig&) = default;
};

struct OptimizerConfig {
  double lr = 3e-4;      // peak
  double min_lr = 3e-5;  // at the last step
  std::int64_t warmup_steps = 0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  double clip_grad = 1.0;  // largest global gradient norm; 0: no clipping
  friend bool operator==(const OptimizerConfig&, const OptimizerConfig&) = default;
};

struct RunConfig {
  std::int64_t steps = 100;
  std::string out =
      "out/train";  // directory for metrics, the effective configuration and the weights
  std::int64_t ranks = 1;
  std::string dtype = "float32";      // float32 | float64
  std::int64_t seed = 0;              // of the initial weights
  std::int64_t threads_per_rank = 0;  // 0: max(1, cores / ranks)
  std::int64_t log_interval = 1;      // steps between printed lines; every step is in metrics.jsonl
  Bytes bucket_bytes = Bytes(4 << 20);  // of the gradient reduction
  std::string attention = "blocked";    // blocked | reference
  std::int64_t save_interval = 100;     // steps between checkpoints; 0: only when the run ends
  std::int64_t keep_last = 2;           // checkpoints that stay; 0: all
  friend bool operator==(const RunConfig&, const RunConfig&) = default;
};

struct CommConfig {
  double wait_limit_s = 60;    // of every wait for another rank
  bool check_messages = true;  // both sides compare label and size (threads always do)
  friend bool operator==(const CommConfig&, const CommConfig&) = default;
};

std::chrono::nanoseconds wait_limit(const CommConfig& config);

struct TrainConfig {
  ModelConfig model;  // vocab_size 0: the corpus tokenizer's
  DataConfig data;
  PlanConfig plan;
  MemoryConfig memory;
  OptimizerConfig optimizer;
  RunConfig train;
  CommConfig comm;
  friend bool operator==(const TrainConfig&, const TrainConfig&) = default;
};

// `--section.key value` of the command line.
struct Override {
  std::string key;    // "optimizer.lr"
  std::string value;  // as written; counts may be "4K"
};

// Reads `--section.key value` and `--section.key=value`; anything else is refused.
std::vector<Override> parse_overrides(std::span<const std::string> arguments);

// The file (none when `path` is empty), then the overrides (the last of one key wins), then every
// check.
TrainConfig load_train_config(const std::filesystem::path& path,
                              std::span<const Override> overrides);
// The same for text already in memory; `source` names it in messages.
TrainConfig parse_train_config(std::string_view toml, std::string_view source,
                               std::span<const Override> overrides);

// Checks between keys; load_train_config has done it already.
void check_train_config(const TrainConfig& config);

// The effective configuration with every key, in table order.
std::string to_toml(const TrainConfig& config);

struct ConfigDifference {
  std::string key;   // "optimizer.lr"
  std::string left;  // as to_toml prints it
  std::string right;
  friend bool operator==(const ConfigDifference&, const ConfigDifference&) = default;
};
std::vector<ConfigDifference> diff(const TrainConfig& left,
                                   const TrainConfig& right);  // in table order

// Every key with type, default, range and meaning, for `--help`.
std::string train_config_help();

}  // namespace weft
