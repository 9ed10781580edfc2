// safetensors files: u64 header length, JSON header, data. Written atomically; read with every rule of the format
// enforced, so that a damaged file gives its own message and never a large allocation.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace weft {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;  // contiguous, CPU
};

void save_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                      const std::map<std::string, std::string>& metadata);

struct SafetensorsFile {
  std::vector<NamedTensor> tensors;  // in file order
  std::map<std::string, std::string> metadata;
};
SafetensorsFile load_safetensors(const std::filesystem::path& path);

}  // namespace weft
