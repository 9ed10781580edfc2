// safetensors files: u64 header length, JSON header, data (docs/formats.md has every
// byte). Written atomically; read with every rule of the format enforced, so that a damaged file
// gives its own message, with file name and offset, and never a large allocation: memory is asked
// for only after all lengths agree with the file's size.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace weft {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;  // contiguous, CPU; any shape, also [] and with 0
};

// Tensors are stored in the given order, but wider elements first, so that each lies aligned in the
// file. Tensors that share memory are refused (InternalError): a tied weight is stored once, under
// one name. Other tools of the field expect `metadata` to hold {"format", "pt"}. An existing file
// is replaced only by a complete one.
void save_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                      const std::map<std::string, std::string>& metadata);

struct SafetensorsFile {
  std::vector<NamedTensor> tensors;  // in file order
  std::map<std::string, std::string> metadata;
};
// UserError for a file that breaks a rule, or holds a dtype that libtorch does not have.
SafetensorsFile load_safetensors(const std::filesystem::path& path);

}  // namespace weft
