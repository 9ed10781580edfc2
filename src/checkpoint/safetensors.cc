#include "checkpoint/safetensors.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <span>
#include <string_view>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/safetensors_dtype.h"
#include "checkpoint/safetensors_header.h"

namespace weft {
namespace {

void check_tensors(const std::vector<NamedTensor>& tensors) {
  std::set<std::string_view> names;
  struct Memory {
    const std::byte* begin;
    const std::byte* end;
    std::string_view name;
  };
  std::vector<Memory> memories;
  for (const auto& [name, tensor] : tensors) {
    WEFT_CHECK(names.insert(name).second && name != "__metadata__", "tensor name '{}' is taken",
               name);
    WEFT_CHECK(tensor.defined() && tensor.device().is_cpu() && tensor.is_contiguous(),
               "tensor '{}' must be contiguous and in host memory", name);
    const auto* begin = static_cast<const std::byte*>(tensor.data_ptr());
    if (tensor.nbytes() > 0) memories.push_back({begin, begin + tensor.nbytes(), name});
  }
  std::ranges::sort(memories, {}, &Memory::begin);
  for (std::size_t i = 1; i < memories.size(); ++i) {
    WEFT_CHECK(memories[i - 1].end <= memories[i].begin,
               "tensors '{}' and '{}' share memory; a tied weight is stored once, under one name",
               memories[i - 1].name, memories[i].name);
  }
}

void write_tensors(FileWriter& writer, const std::vector<NamedTensor>& tensors,
                   const std::map<std::string, std::string>& metadata) {
  SafetensorsHeader header{.entries = {}, .metadata = metadata};
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    header.entries.push_back({.name = name,
                              .dtype = std::string(safetensors_dtype(tensor.scalar_type())),
                              .shape = tensor.sizes().vec(),
                              .begin = offset,
                              .end = offset + tensor.nbytes()});
    offset += tensor.nbytes();
  }
  const std::string text = format_safetensors_header(header);
  WEFT_CHECK(text.size() <= kMaxSafetensorsHeaderBytes, "{} tensors need a header of {} bytes",
             tensors.size(), text.size());
  const std::uint64_t length = text.size();
  writer.write(std::as_bytes(std::span(&length, 1)));
  writer.write(text);
  for (const NamedTensor& entry : tensors) {
    writer.write({static_cast<const std::byte*>(entry.tensor.data_ptr()), entry.tensor.nbytes()});
  }
}

}  // namespace

void save_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  check_tensors(tensors);
  std::vector<NamedTensor> ordered = tensors;
  std::ranges::stable_sort(ordered, std::ranges::greater{},
                           [](const NamedTensor& entry) { return entry.tensor.element_size(); });
  // Streamed: a second copy of all weights in memory is what write_file_atomically would need.
  AtomicFile file(path);
  write_tensors(file.writer(), ordered, metadata);
  file.commit();
}

SafetensorsFile load_safetensors(const std::filesystem::path& path) {
  const MappedFile file(path);
  SafetensorsLayout layout = read_safetensors_layout(file.bytes(), path.string());
  SafetensorsFile result{.tensors = {}, .metadata = std::move(layout.header.metadata)};
  const std::byte* data = file.bytes().data() + layout.data_begin;
  for (const SafetensorsEntry& entry : layout.header.entries) {
    const at::ScalarType type = safetensors_scalar_type(
        entry.dtype, fmt::format("'{}' tensor '{}'", path.string(), entry.name));
    at::Tensor tensor = at::empty(entry.shape, type);
    // An empty tensor may have no memory at all.
    if (entry.end > entry.begin)
      std::memcpy(tensor.data_ptr(), data + entry.begin, entry.end - entry.begin);
    result.tensors.push_back({entry.name, std::move(tensor)});
  }
  return result;
}

}  // namespace weft
