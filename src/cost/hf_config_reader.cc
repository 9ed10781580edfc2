#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_fields.h"
#include "cost/model_shape.h"

namespace weft {
namespace {

constexpr std::array<const char*, 7> kModelTypes{"llama", "mistral",   "mixtral",  "qwen2",
                                                 "qwen3", "qwen2_moe", "qwen3_moe"};
constexpr std::int64_t kMost = std::int64_t{1} << 40;  // validate() knows the real limits

std::int64_t count_or(const JsonFields& fields, const char* key, std::int64_t otherwise,
                      const nlohmann::ordered_json& json) {
  if (!fields.has(key) || json[key].is_null()) return otherwise;
  return fields.count(key, 0, kMost);
}

void read_mixture(const nlohmann::ordered_json& json, const JsonFields& fields,
                  const std::string& type, ModelShape& model) {
  const char* experts = type == "mixtral" ? "num_local_experts" : "num_experts";
  model.num_experts = fields.count(experts, 1, kMost);
  model.experts_per_token = fields.count("num_experts_per_tok", 1, kMost);
  if (type == "mixtral") return;
  model.intermediate_size = fields.count("moe_intermediate_size", 1, kMost);
  model.shared_expert_size = count_or(fields, "shared_expert_intermediate_size", 0, json);
  // Layers without experts would need shapes of their own.
  WEFT_USER_CHECK(count_or(fields, "decoder_sparse_step", 1, json) == 1,
                  "{}: \"decoder_sparse_step\" is {}; only models whose layers are all alike are "
                  "known",
                  fields.where(), json["decoder_sparse_step"].dump());
  WEFT_USER_CHECK(!json.contains("mlp_only_layers") || json["mlp_only_layers"].empty(),
                  "{}: \"mlp_only_layers\" is not empty; only models whose layers are all alike "
                  "are known",
                  fields.where());
}

}  // namespace

ModelShape read_hf_config(const std::filesystem::path& path) {
  const nlohmann::ordered_json json = read_json_object(path, "model config");
  const JsonFields fields(json, fmt::format("model config '{}'", path.string()));
  WEFT_USER_CHECK(fields.has("model_type"),
                  "{}: key \"model_type\" is missing; expected a Hugging Face config.json",
                  fields.where());
  const std::string type = fields.text("model_type");
  WEFT_USER_CHECK(std::find(kModelTypes.begin(), kModelTypes.end(), type) != kModelTypes.end(),
                  "{}: model_type is \"{}\", expected one of {}", fields.where(), type,
                  fmt::join(kModelTypes, ", "));
  ModelShape model;
  const auto folder = std::filesystem::absolute(path).parent_path().filename().string();
  model.name = fields.has("_name_or_path") && json["_name_or_path"].is_string() &&
                       !json["_name_or_path"].get<std::string>().empty()
                   ? json["_name_or_path"].get<std::string>()
                   : folder;
  model.source = path.string();
  model.num_layers = fields.count("num_hidden_layers", 1, kMost);
  model.hidden_size = fields.count("hidden_size", 1, kMost);
  model.num_heads = fields.count("num_attention_heads", 1, kMost);
  model.num_kv_heads = count_or(fields, "num_key_value_heads", model.num_heads, json);
  model.head_dim = count_or(fields, "head_dim", model.hidden_size / model.num_heads, json);
  model.vocab_size = fields.count("vocab_size", 1, kMost);
  model.tie_word_embeddings =
      fields.has("tie_word_embeddings") && fields.flag("tie_word_embeddings");
  if (type == "mixtral" || type.ends_with("_moe")) read_mixture(json, fields, type, model);
  if (model.intermediate_size == 0)
    model.intermediate_size = fields.count("intermediate_size", 1, kMost);
  validate(model, fields.where());
  return model;
}

}  // namespace weft
