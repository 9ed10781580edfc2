#include "train/config_schema.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/suggest.h"

namespace weft {
namespace {

#define WEFT_FIELD(member) [](TrainConfig& config) -> FieldRef { return &config.member; }

constexpr FieldRange kPositive = {.min = 0, .min_open = true};
constexpr FieldRange kNotNegative = {.min = 0};
constexpr FieldRange kAtLeastOne = {.min = 1};
constexpr FieldRange kDecayRate = {.min = 0, .max = 1, .max_open = true};
// Sizes of one dimension: products of four of them stay far below 2^63 in every count of FLOPs or
// bytes.
constexpr FieldRange kDimension = {.min = 1, .max = 1 << 24};

std::vector<ConfigField> model_fields() {
  return {
      {.section = "model",
       .name = "vocab_size",
       .ref = WEFT_FIELD(model.vocab_size),
       .help = "vocabulary; 0: the corpus tokenizer's",
       .range = {.min = 0, .max = 1 << 24},
       .also_called = {"padded_vocab_size", "vocab"}},
      {.section = "model",
       .name = "hidden_size",
       .ref = WEFT_FIELD(model.hidden_size),
       .help = "width of the residual stream",
       .range = kDimension,
       .required = true,
       .also_called = {"d_model", "n_embd", "dim"}},
      {.section = "model",
       .name = "num_layers",
       .ref = WEFT_FIELD(model.num_layers),
       .help = "decoder layers",
       .range = {.min = 1, .max = 1 << 16},
       .required = true,
       .also_called = {"num_hidden_layers", "n_layers", "layers"}},
      {.section = "model",
       .name = "num_heads",
       .ref = WEFT_FIELD(model.num_heads),
       .help = "query heads",
       .range = {.min = 1, .max = 1 << 16},
       .required = true,
       .also_called = {"num_attention_heads", "n_heads", "heads"}},
      {.section = "model",
       .name = "num_kv_heads",
       .ref = WEFT_FIELD(model.num_kv_heads),
       .help = "key and value heads; divides num_heads",
       .range = {.min = 1, .max = 1 << 16},
       .required = true,
       .also_called = {"num_key_value_heads", "num_query_groups", "n_kv_heads", "kv_heads"}},
      {.section = "model",
       .name = "head_dim",
       .ref = WEFT_FIELD(model.head_dim),
       .help = "width of one head; even",
       .range = {.min = 2, .max = 1 << 16},
       .required = true,
       .also_called = {"kv_channels", "head_size"}},
      {.section = "model",
       .name = "intermediate_size",
       .ref = WEFT_FIELD(model.intermediate_size),
       .help = "width of the feed-forward layer",
       .range = kDimension,
       .required = true,
       .also_called = {"ffn_hidden_size", "ffn_dim", "hidden_dim"}},
      {.section = "model",
       .name = "rope_theta",
       .ref = WEFT_FIELD(model.rope_theta),
       .help = "base of the rotary angles",
       .range = kPositive,
       .also_called = {"rotary_base", "rope_base"}},
      {.section = "model",
       .name = "rms_norm_eps",
       .ref = WEFT_FIELD(model.rms_norm_eps),
       .help = "added to the mean square in RMSNorm",
       .range = kPositive,
       .also_called = {"norm_epsilon", "norm_eps", "layer_norm_eps"}},
      {.section = "model",
       .name = "tie_word_embeddings",
       .ref = WEFT_FIELD(model.tie_word_embeddings),
       .help = "the output head is the input embedding",
       .also_called = {"tied", "tie_embeddings"}},
  };
}

std::vector<ConfigField> data_and_plan_fields() {
  return {
      {.section = "data",
       .name = "corpus",
       .ref = WEFT_FIELD(data.corpus),
       .help = "directory made by `weft corpus build`",
       .required = true,
       .also_called = {"data_path", "dataset", "train_data", "path"}},
      {.section = "data",
       .name = "global_batch_tokens",
       .ref = WEFT_FIELD(data.global_batch_tokens),
       .help = "most tokens of one step, over all ranks",
       .unit = "tokens",
       .range = kAtLeastOne,
       .also_called = {"global_batch_size", "batch_size", "batch_tokens", "tokens_per_step"}},
      {.section = "data",
       .name = "max_context",
       .ref = WEFT_FIELD(data.max_context),
       .help = "longest sequence",
       .unit = "tokens",
       .range = kAtLeastOne,
       .also_called = {"seq_length", "max_seq_len", "context_length", "sequence_length",
                       "max_position_embeddings", "cutoff_len"}},
      {.section = "data",
       .name = "over_long",
       .ref = WEFT_FIELD(data.over_long),
       .help = "what happens to a longer document",
       .choices = {"error", "split"},
       .also_called = {"overlong", "truncation"}},
      {.section = "data",
       .name = "tail",
       .ref = WEFT_FIELD(data.tail),
       .help = "sequences left at the end of an epoch: into the next one, or dropped",
       .choices = {"carry", "drop"},
       .also_called = {"drop_last"}},
      {.section = "data",
       .name = "seed",
       .ref = WEFT_FIELD(data.seed),
       .help = "of the data order",
       .range = kNotNegative,
       .also_called = {"data_seed", "shuffle_seed"}},
      {.section = "data",
       .name = "weighting",
       .ref = WEFT_FIELD(data.weighting),
       .help = "every target counts the same, or every sequence",
       .choices = {"token", "sample"},
       .also_called = {"loss_weighting"}},
      {.section = "plan",
       .name = "strategy",
       .ref = WEFT_FIELD(plan.strategy),
       .help = "how sequences are placed",
       .choices = {"static", "hdp-naive", "hdp"},
       .also_called = {"planner"}},
      {.section = "plan",
       .name = "capacity",
       .ref = WEFT_FIELD(plan.capacity),
       .help = "tokens resident on a rank in one micro-batch",
       .unit = "tokens",
       .range = kAtLeastOne,
       .also_called = {"max_seqlen_per_dp_cp_rank", "micro_batch_tokens", "micro_batch_size"}},
      {.section = "plan",
       .name = "cost",
       .ref = WEFT_FIELD(plan.cost),
       .help = "cost file; empty: the built-in estimate",
       .also_called = {"cost_file", "profile"}},
  };
}

std::vector<ConfigField> optimizer_fields() {
  return {
      {.section = "optimizer",
       .name = "lr",
       .ref = WEFT_FIELD(optimizer.lr),
       .help = "peak learning rate",
       .range = kNotNegative,
       .also_called = {"learning_rate", "max_lr"}},
      {.section = "optimizer",
       .name = "min_lr",
       .ref = WEFT_FIELD(optimizer.min_lr),
       .help = "learning rate at the last step; at most lr",
       .range = kNotNegative,
       .also_called = {"minimum_lr", "min_learning_rate", "lr_end"}},
      {.section = "optimizer",
       .name = "warmup_steps",
       .ref = WEFT_FIELD(optimizer.warmup_steps),
       .help = "steps of linear warm-up",
       .unit = "steps",
       .range = kNotNegative,
       .also_called = {"warmup", "lr_warmup_iters", "lr_warmup_steps"}},
      {.section = "optimizer",
       .name = "beta1",
       .ref = WEFT_FIELD(optimizer.beta1),
       .help = "decay of the first moment",
       .range = kDecayRate,
       .also_called = {"adam_beta1", "beta_1"}},
      {.section = "optimizer",
       .name = "beta2",
       .ref = WEFT_FIELD(optimizer.beta2),
       .help = "decay of the second moment",
       .range = kDecayRate,
       .also_called = {"adam_beta2", "beta_2"}},
      {.section = "optimizer",
       .name = "eps",
       .ref = WEFT_FIELD(optimizer.eps),
       .help = "added to the root of the second moment",
       .range = {.min = 1e-30, .max = 1},
       .also_called = {"adam_eps", "epsilon", "adam_epsilon"}},
      {.section = "optimizer",
       .name = "weight_decay",
       .ref = WEFT_FIELD(optimizer.weight_decay),
       .help = "decoupled, on matrices only",
       .range = kNotNegative,
       .also_called = {"wd"}},
      {.section = "optimizer",
       .name = "clip_grad",
       .ref = WEFT_FIELD(optimizer.clip_grad),
       .help = "largest global gradient norm; 0: no clipping",
       .range = kNotNegative,
       .also_called = {"max_grad_norm", "grad_clip", "gradient_clipping"}},
  };
}

std::vector<ConfigField> run_fields() {
  return {
      {.section = "train",
       .name = "steps",
       .ref = WEFT_FIELD(train.steps),
       .help = "optimizer updates of the run",
       .unit = "steps",
       .range = kNotNegative,
       .also_called = {"train_iters", "max_steps", "num_steps", "num_epochs", "epochs"}},
      {.section = "train",
       .name = "out",
       .ref = WEFT_FIELD(train.out),
       .help = "directory for metrics, effective configuration and weights",
       .also_called = {"output_dir", "save", "out_dir"}},
      {.section = "train",
       .name = "ranks",
       .ref = WEFT_FIELD(train.ranks),
       .help = "size of the HDP axis",
       .range = {.min = 1, .max = 1 << 20},
       .also_called = {"world_size", "num_ranks", "nproc_per_node"}},
      {.section = "train",
       .name = "dtype",
       .ref = WEFT_FIELD(train.dtype),
       .help = "of parameters, gradients and moments",
       .choices = {"float32", "float64"},
       .also_called = {"precision", "torch_dtype"}},
      {.section = "train",
       .name = "seed",
       .ref = WEFT_FIELD(train.seed),
       .help = "of the initial weights",
       .range = kNotNegative,
       .also_called = {"model_seed", "init_seed"}},
      {.section = "train",
       .name = "threads_per_rank",
       .ref = WEFT_FIELD(train.threads_per_rank),
       .help = "compute threads of one rank; 0: cores / ranks, at least 1",
       .range = {.min = 0, .max = 1 << 12},
       .also_called = {"num_threads", "threads"}},
      {.section = "train",
       .name = "log_interval",
       .ref = WEFT_FIELD(train.log_interval),
       .help = "steps between printed lines; metrics.jsonl has every step",
       .unit = "steps",
       .range = kAtLeastOne,
       .also_called = {"logging_steps", "log_every"}},
      {.section = "train",
       .name = "bucket_bytes",
       .ref = WEFT_FIELD(train.bucket_bytes),
       .help = "of one exchange of the gradient reduction",
       .unit = "bytes",
       .range = {.min = 8},
       .also_called = {"bucket_size", "bucket_cap_mb"}},
      {.section = "train",
       .name = "attention",
       .ref = WEFT_FIELD(train.attention),
       .help = "kernel: tiles on the BLAS, or the plain reference",
       .choices = {"blocked", "reference"},
       .also_called = {"attn_implementation"}},
      {.section = "comm",
       .name = "wait_limit_s",
       .ref = WEFT_FIELD(comm.wait_limit_s),
       .help = "longest wait for another rank",
       .unit = "seconds",
       .range = {.min = 0, .max = 1e6, .min_open = true},
       .also_called = {"timeout", "wait_limit", "timeout_s"}},
  };
}

#undef WEFT_FIELD

// Candidates of a suggestion, each with the field it stands for. The key's own section comes first:
// the nearest name of equal distance is the first.
struct Candidates {
  std::vector<std::string> names;
  std::vector<const ConfigField*> fields;
};

Candidates candidates_for(std::string_view section) {
  Candidates result;
  for (const bool own : {true, false}) {
    for (const ConfigField& field : config_fields()) {
      if ((field.section == section) != own) continue;
      result.names.emplace_back(field.name);
      result.fields.push_back(&field);
      for (const std::string_view name : field.also_called) {
        result.names.emplace_back(name);
        result.fields.push_back(&field);
      }
    }
  }
  return result;
}

std::string keys_of(std::string_view section) {
  std::vector<std::string_view> names;
  for (const ConfigField& field : config_fields()) {
    if (field.section == section) names.push_back(field.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string quote_toml(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      quoted += fmt::format("\\u{:04X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

// The shortest text that reads back as the same number, and as a float.
std::string format_double(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

struct FormatValue {
  std::string operator()(const std::int64_t* value) const { return fmt::format("{}", *value); }
  std::string operator()(const Tokens* value) const { return fmt::format("{}", *value); }
  std::string operator()(const Bytes* value) const { return fmt::format("{}", *value); }
  std::string operator()(const double* value) const { return format_double(*value); }
  std::string operator()(const bool* value) const { return *value ? "true" : "false"; }
  std::string operator()(const std::string* value) const { return quote_toml(*value); }
};

std::string describe_range(const FieldRange& range) {
  const bool low = std::isfinite(range.min);
  const bool high = std::isfinite(range.max);
  std::string text;
  if (low) text = fmt::format(" {} {}", range.min_open ? "above" : "of at least", range.min);
  if (high)
    text +=
        fmt::format("{} {} {}", low ? " and" : "", range.max_open ? "below" : "at most", range.max);
  return text;
}

}  // namespace

std::string ConfigField::key() const { return fmt::format("{}.{}", section, name); }

std::span<const ConfigField> config_fields() {
  static const std::vector<ConfigField> kFields = [] {
    std::vector<ConfigField> fields;
    for (auto part : {model_fields(), data_and_plan_fields(), optimizer_fields(), run_fields()}) {
      fields.insert(fields.end(), part.begin(), part.end());
    }
    return fields;
  }();
  return kFields;
}

std::span<const std::string> config_sections() {
  static const std::vector<std::string> kSections = [] {
    std::vector<std::string> sections;
    for (const ConfigField& field : config_fields()) {
      if (sections.empty() || sections.back() != field.section)
        sections.emplace_back(field.section);
    }
    return sections;
  }();
  return kSections;
}

const ConfigField* find_config_field(std::string_view section, std::string_view name) {
  const auto fields = config_fields();
  const auto found = std::ranges::find_if(fields, [&](const ConfigField& field) {
    return field.section == section && field.name == name;
  });
  return found == fields.end() ? nullptr : &*found;
}

std::string describe_unknown_key(std::string_view section, std::string_view name) {
  const std::string where =
      section.empty() ? "outside any section" : fmt::format("in [{}]", section);
  const Candidates candidates = candidates_for(section);
  if (const auto nearest = nearest_name(name, candidates.names)) {
    const auto index = std::ranges::find(candidates.names, *nearest) - candidates.names.begin();
    const ConfigField& field = *candidates.fields[static_cast<std::size_t>(index)];
    return fmt::format("unknown key '{}' {}; did you mean '{}' in [{}]?", name, where, field.name,
                       field.section);
  }
  if (section.empty()) {
    return fmt::format("unknown key '{}' {}; the sections are {}", name, where,
                       fmt::join(config_sections(), ", "));
  }
  return fmt::format("unknown key '{}' {}; its keys are {}", name, where, keys_of(section));
}

std::string describe_unknown_section(std::string_view section) {
  const auto nearest = nearest_name(section, config_sections());
  if (nearest) return fmt::format("unknown section [{}]; did you mean [{}]?", section, *nearest);
  return fmt::format("unknown section [{}]; the sections are {}", section,
                     fmt::join(config_sections(), ", "));
}

std::string describe_expected(const ConfigField& field) {
  TrainConfig any;
  const FieldRef ref = field.ref(any);
  if (!field.choices.empty()) return fmt::format("one of {}", fmt::join(field.choices, ", "));
  if (std::holds_alternative<std::string*>(ref)) return "text";
  if (std::holds_alternative<bool*>(ref)) return "true or false";
  const bool real = std::holds_alternative<double*>(ref);
  const std::string unit = field.unit.empty() ? "" : fmt::format(" ({})", field.unit);
  return (real ? "a number" : "an integer") + describe_range(field.range) + unit;
}

std::string format_field(const ConfigField& field, const TrainConfig& config) {
  // The accessor serves reading and writing; nothing is written here.
  const FieldRef ref = field.ref(const_cast<TrainConfig&>(config));
  return std::visit(FormatValue{}, ref);
}

}  // namespace weft
