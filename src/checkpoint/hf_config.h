// config.json of an exported model, in the form that Hugging Face's Llama classes read, so that the
// weights saved beside it (safetensors, with the same names) can be used by other tools.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/units.h"
#include "model/model_config.h"
#include "tensor/tensor.h"

namespace weft {

struct HfConfigOptions {
  at::ScalarType dtype = at::kFloat;  // of the saved weights
  Tokens max_position_embeddings;     // longest context the model was trained on
  // Written as null when absent: readers would otherwise assume 1 and 2, which are ordinary bytes
  // here.
  std::optional<std::int64_t> bos_token_id;
  std::optional<std::int64_t> eos_token_id;
};

std::string hf_config_json(const ModelConfig& config, const HfConfigOptions& options);
void save_hf_config(const std::filesystem::path& path, const ModelConfig& config,
                    const HfConfigOptions& options);

}  // namespace weft
