#include "checkpoint/hf_config.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"

namespace weft {
namespace {

nlohmann::ordered_json id_or_null(const std::optional<std::int64_t>& id) {
  return id ? nlohmann::ordered_json(*id) : nlohmann::ordered_json(nullptr);
}

}  // namespace

std::string hf_config_json(const ModelConfig& config, const HfConfigOptions& options) {
  WEFT_CHECK(options.max_position_embeddings >= Tokens(1), "max_position_embeddings is {}",
             options.max_position_embeddings);
  WEFT_CHECK(options.dtype == at::kFloat || options.dtype == at::kDouble, "weights in {}",
             dtype_name(options.dtype));
  nlohmann::ordered_json json;
  json["architectures"] = {"LlamaForCausalLM"};
  json["model_type"] = "llama";
  json["vocab_size"] = config.vocab_size;
  json["hidden_size"] = config.hidden_size;
  json["intermediate_size"] = config.intermediate_size;
  json["num_hidden_layers"] = config.num_layers;
  json["num_attention_heads"] = config.num_heads;
  json["num_key_value_heads"] = config.num_kv_heads;
  json["head_dim"] = config.head_dim;
  json["hidden_act"] = "silu";
  json["attention_bias"] = false;
  json["mlp_bias"] = false;
  json["attention_dropout"] = 0.0;
  json["max_position_embeddings"] = options.max_position_embeddings.value();
  json["rope_theta"] = config.rope_theta;
  json["rope_scaling"] = nullptr;
  json["rms_norm_eps"] = config.rms_norm_eps;
  json["tie_word_embeddings"] = config.tie_word_embeddings;
  json["torch_dtype"] = dtype_name(options.dtype);
  json["bos_token_id"] = id_or_null(options.bos_token_id);
  json["eos_token_id"] = id_or_null(options.eos_token_id);
  return json.dump(2) + "\n";
}

void save_hf_config(const std::filesystem::path& path, const ModelConfig& config,
                    const HfConfigOptions& options) {
  write_file_atomically(path, hf_config_json(config, options));
}

}  // namespace weft
