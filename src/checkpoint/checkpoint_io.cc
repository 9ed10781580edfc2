#include "checkpoint/checkpoint_io.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/safetensors_dtype.h"
#include "checkpoint/safetensors_header.h"
#include "comm/collectives.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr Rank kWriter{0};  // of everything but the other ranks' parts

// A flat buffer of the state and the prefix of its tensors' names.
struct StateBuffer {
  std::string_view kind;
  at::Tensor flat;  // [P]
};

std::array<StateBuffer, 3> state_buffers(const ParameterSet& parameters, const AdamW& optimizer) {
  return {{{"parameter", parameters.flat_values()},
           {"first_moment", optimizer.first_moments()},
           {"second_moment", optimizer.second_moments()}}};
}

std::string tensor_name(std::string_view kind, const ParameterInfo& info) {
  return fmt::format("{}/{}", kind, info.name);
}

std::string part_file(std::int64_t rank) { return fmt::format("part-{:05}.safetensors", rank); }

// The part of a parameter's own elements that lies in `flat`, a range of the flat buffers.
TokenRange intersect(const ParameterInfo& info, TokenRange flat) {
  const std::int64_t begin = std::max(flat.begin, info.offset) - info.offset;
  const std::int64_t end = std::min(flat.end, info.offset + info.size) - info.offset;
  return {begin, std::max(begin, end)};
}

std::vector<NamedTensor> part_tensors(const ParameterSet& parameters, const AdamW& optimizer,
                                      TokenRange flat) {
  std::vector<NamedTensor> tensors;
  for (const StateBuffer& buffer : state_buffers(parameters, optimizer)) {
    for (const ParameterInfo& info : parameters.infos()) {
      const TokenRange own = intersect(info, flat);
      if (own.size() == 0) continue;
      tensors.push_back({.name = chunk_name(tensor_name(buffer.kind, info), own.begin),
                         .tensor = buffer.flat.narrow(0, info.offset + own.begin, own.size())});
    }
  }
  return tensors;
}

std::vector<CheckpointTensor> describe_tensors(const ParameterSet& parameters,
                                               const AdamW& optimizer, std::int64_t num_parts) {
  std::vector<CheckpointTensor> tensors;
  for (const StateBuffer& buffer : state_buffers(parameters, optimizer)) {
    for (const ParameterInfo& info : parameters.infos()) {
      CheckpointTensor tensor{.name = tensor_name(buffer.kind, info),
                              .dtype = std::string(safetensors_dtype(buffer.flat.scalar_type())),
                              .shape = info.shape,
                              .chunks = {}};
      for (std::int64_t part = 0; part < num_parts; ++part) {
        const TokenRange own = intersect(info, even_part(parameters.size(), num_parts, part));
        if (own.size() > 0) tensor.chunks.push_back({part, own.begin, own.end});
      }
      tensors.push_back(std::move(tensor));
    }
  }
  return tensors;
}

CheckpointFile describe_file(const fs::path& folder, const std::string& name) {
  const MappedFile content(folder / name);
  return {.name = name,
          .bytes = static_cast<std::int64_t>(content.bytes().size()),
          .checksum = checksum64(content.bytes())};
}

// Runs `work` and gives the reason of its failure, or nothing. Other kinds of exceptions are bugs
// or a peer's failure, and pass.
template <class Work>
std::string reason_of(const Work& work) {
  try {
    work();
    return {};
  } catch (const UserError& error) {
    return error.what();
  } catch (const IoError& error) {
    return error.what();
  }
}

// Ranks whose folder is not rank 0's would each think they had saved.
void check_parts_are_visible(const fs::path& folder, std::span<const CheckpointFile> files) {
  for (const CheckpointFile& file : files) {
    std::error_code error;
    const auto bytes = fs::file_size(folder / file.name, error);
    if (!error && bytes == static_cast<std::uintmax_t>(file.bytes)) continue;
    throw IoError(fmt::format(
        "'{}', written by another rank with {} bytes, is {} for rank 0; train.out must be on a "
        "file system that all ranks share",
        (folder / file.name).string(), file.bytes,
        error ? "not there" : fmt::format("{} bytes long", bytes)));
  }
}

// Each rank's description of its part, on every rank; those of ranks that failed are zero.
std::vector<CheckpointFile> gather_files(Communicator& comm, const CheckpointFile& mine,
                                         const OpLabel& label) {
  const std::array<std::int64_t, 2> packed = {mine.bytes, static_cast<std::int64_t>(mine.checksum)};
  const auto all = gather_all<std::int64_t>(comm, packed, label);
  std::vector<CheckpointFile> files;
  for (std::size_t r = 0; r < all.size() / 2; ++r) {
    files.push_back({.name = part_file(static_cast<std::int64_t>(r)),
                     .bytes = all[2 * r],
                     .checksum = static_cast<std::uint64_t>(all[2 * r + 1])});
  }
  return files;
}

void write_head(const fs::path& folder, const CheckpointHead& head,
                std::vector<CheckpointFile> files, std::vector<CheckpointTensor> tensors) {
  const fs::path incomplete = incomplete_checkpoint_path(folder, head.position.step);
  check_parts_are_visible(incomplete, files);
  write_file_atomically(incomplete / kCheckpointConfigFile, head.config);
  files.push_back(describe_file(incomplete, std::string(kCheckpointConfigFile)));
  commit_checkpoint(folder, {.position = head.position,
                             .corpus_hash = head.corpus_hash,
                             .config_hash = hash128(head.config),
                             .files = std::move(files),
                             .tensors = std::move(tensors)});
}

// All ranks must read the checkpoint that rank 0 reads.
void check_same_checkpoint(Communicator& comm, const CheckpointManifest* manifest,
                           const std::string& reason) {
  std::string seen = "failed: " + reason;
  if (manifest != nullptr) {
    seen = fmt::format("step {}, manifest {}", manifest->position.step,
                       hash128(encode_manifest(*manifest)).hex());
  }
  const auto all = gather_texts(comm, seen, {.operation = "checkpoint seen"});
  const bool agreed =
      std::all_of(all.begin(), all.end(), [&](const std::string& s) { return s == all.front(); });
  if (agreed && manifest != nullptr) return;
  std::string list;
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (r > 0 && all[r] == all.front()) continue;
    list += fmt::format("; rank {}: {}", r, all[r]);
  }
  throw_user_error("not all ranks can read the same checkpoint{}{}", list,
                   agreed ? "" : " (ranks not named see what rank 0 sees)");
}

// The bytes of a manifest's files, by file and chunk name.
class PartReader {
 public:
  PartReader(const fs::path& checkpoint, const CheckpointManifest& manifest)
      : checkpoint_(checkpoint), manifest_(manifest) {}

  // Copies elements `range` of a tensor.
  void read(const CheckpointTensor& tensor, TokenRange range, std::byte* to) {
    const auto element_bytes =
        static_cast<std::int64_t>(safetensors_element_bytes(tensor.dtype, tensor.name));
    for (const CheckpointChunk& chunk : tensor.chunks) {
      const std::int64_t begin = std::max(chunk.begin, range.begin);
      const std::int64_t end = std::min(chunk.end, range.end);
      if (begin >= end) continue;
      const auto bytes = chunk_bytes(tensor, chunk, element_bytes);
      std::memcpy(to + (begin - range.begin) * element_bytes,
                  bytes.data() + (begin - chunk.begin) * element_bytes,
                  static_cast<std::size_t>((end - begin) * element_bytes));
    }
  }

 private:
  struct Part {
    MappedFile file;
    SafetensorsLayout layout;
    std::map<std::string, const SafetensorsEntry*, std::less<>> entries;
  };

  Part& part(std::int64_t file_idx) {
    auto& part = parts_[file_idx];
    if (part == nullptr) {
      const fs::path path = checkpoint_ / manifest_.files[static_cast<std::size_t>(file_idx)].name;
      part = std::make_unique<Part>();
      part->file = MappedFile(path);
      part->layout = read_safetensors_layout(part->file.bytes(), path.string());
      for (const SafetensorsEntry& entry : part->layout.header.entries) {
        part->entries.emplace(entry.name, &entry);
      }
    }
    return *part;
  }

  std::span<const std::byte> chunk_bytes(const CheckpointTensor& tensor,
                                         const CheckpointChunk& chunk, std::int64_t element_bytes) {
    Part& from = part(chunk.file_idx);
    const std::string name = chunk_name(tensor.name, chunk.begin);
    const auto found = from.entries.find(name);
    const std::string file = from.file.path().string();
    WEFT_USER_CHECK(found != from.entries.end(), "'{}' lacks '{}', which the manifest lists", file,
                    name);
    const SafetensorsEntry& entry = *found->second;
    const std::uint64_t bytes = entry.end - entry.begin;
    const std::int64_t expected = (chunk.end - chunk.begin) * element_bytes;
    WEFT_USER_CHECK(bytes == static_cast<std::uint64_t>(expected) && entry.dtype == tensor.dtype,
                    "'{}': '{}' has {} bytes of {}, the manifest says {} of {}", file, name, bytes,
                    entry.dtype, expected, tensor.dtype);
    return from.file.bytes().subspan(from.layout.data_begin + entry.begin, bytes);
  }

  const fs::path& checkpoint_;
  const CheckpointManifest& manifest_;
  std::map<std::int64_t, std::unique_ptr<Part>> parts_;
};

std::string show_shape(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

// The manifest's tensors by name. Each must be taken once: what nobody takes is not this model's.
class TensorIndex {
 public:
  TensorIndex(const fs::path& checkpoint, const CheckpointManifest& manifest)
      : checkpoint_(checkpoint) {
    for (const CheckpointTensor& tensor : manifest.tensors) left_.emplace(tensor.name, &tensor);
  }

  const CheckpointTensor& take(const std::string& name, const ParameterInfo& info,
                               std::string_view dtype) {
    const auto found = left_.find(name);
    WEFT_USER_CHECK(found != left_.end(), "'{}' has no tensor '{}', which this model needs",
                    checkpoint_.string(), name);
    const CheckpointTensor& tensor = *found->second;
    WEFT_USER_CHECK(tensor.shape == info.shape && tensor.dtype == dtype,
                    "'{}': tensor '{}' is {} {}, this model needs {} {}", checkpoint_.string(),
                    name, tensor.dtype, show_shape(tensor.shape), dtype, show_shape(info.shape));
    left_.erase(found);
    return tensor;
  }

  void expect_all_taken() const {
    WEFT_USER_CHECK(left_.empty(), "'{}' holds tensor '{}', which this model does not have",
                    checkpoint_.string(), left_.begin()->first);
  }

 private:
  const fs::path& checkpoint_;
  std::map<std::string_view, const CheckpointTensor*> left_;
};

// This rank's part of one flat buffer.
void read_part(PartReader& reader, TensorIndex& index, const StateBuffer& buffer,
               const ParameterSet& parameters, TokenRange flat) {
  const std::string dtype(safetensors_dtype(buffer.flat.scalar_type()));
  auto* const data = static_cast<std::byte*>(buffer.flat.data_ptr());
  for (const ParameterInfo& info : parameters.infos()) {
    const CheckpointTensor& tensor = index.take(tensor_name(buffer.kind, info), info, dtype);
    const TokenRange own = intersect(info, flat);
    if (own.size() == 0) continue;
    reader.read(
        tensor, own,
        data + (info.offset + own.begin) * static_cast<std::int64_t>(buffer.flat.element_size()));
  }
}

void join_parts(Communicator& comm, const at::Tensor& flat) {
  const OpLabel label{.operation = "checkpoint parts"};
  const auto size = static_cast<std::size_t>(flat.numel());
  if (flat.scalar_type() == at::kDouble) {
    all_gather(comm, std::span(flat.data_ptr<double>(), size), label);
  } else {
    all_gather(comm, std::span(flat.data_ptr<float>(), size), label);
  }
}

}  // namespace

std::optional<RankReason> save_checkpoint(Communicator& comm, const CheckpointTarget& target,
                                          std::int64_t step, const CheckpointHead& head,
                                          const ParameterSet& parameters, const AdamW& optimizer) {
  const bool is_writer = comm.rank() == kWriter;
  const auto agree = [&](std::string_view operation, const std::string& reason) {
    auto failure = first_reason(comm, reason, {.operation = operation, .step = step});
    if (failure && is_writer) discard_checkpoint(target.folder, step);
    return failure;
  };
  std::string reason;
  if (is_writer) reason = reason_of([&] { begin_checkpoint(target.folder, step); });
  if (auto failure = agree("checkpoint begin", reason)) return failure;

  const fs::path incomplete = incomplete_checkpoint_path(target.folder, step);
  CheckpointFile mine{.name = part_file(comm.rank().value())};
  reason = reason_of([&] {
    const TokenRange own = even_part(parameters.size(), comm.size(), comm.rank().value());
    save_safetensors(incomplete / mine.name, part_tensors(parameters, optimizer, own), {});
    mine = describe_file(incomplete, mine.name);
  });
  auto files = gather_files(comm, mine, {.operation = "checkpoint files", .step = step});
  if (auto failure = agree("checkpoint parts", reason)) return failure;

  if (is_writer) {
    WEFT_CHECK_EQ(head.position.step, step, "the head is of another step");
    reason = reason_of([&] {
      write_head(target.folder, head, std::move(files),
                 describe_tensors(parameters, optimizer, comm.size()));
      prune_checkpoints(target.folder, step, target.keep_last);
    });
  }
  return agree("checkpoint commit", reason);
}

void load_checkpoint(Communicator& comm, const fs::path& checkpoint, ParameterSet& parameters,
                     AdamW& optimizer) {
  std::optional<CheckpointManifest> manifest;
  std::string reason = reason_of([&] { manifest = read_checkpoint(checkpoint, false); });
  check_same_checkpoint(comm, manifest ? &*manifest : nullptr, reason);
  const TokenRange own = even_part(parameters.size(), comm.size(), comm.rank().value());
  reason = reason_of([&] {
    PartReader reader(checkpoint, *manifest);
    TensorIndex index(checkpoint, *manifest);
    for (const StateBuffer& buffer : state_buffers(parameters, optimizer)) {
      read_part(reader, index, buffer, parameters, own);
    }
    index.expect_all_taken();
  });
  if (const auto failure = first_reason(comm, reason, {.operation = "checkpoint read"})) {
    throw_user_error("rank {} cannot load the checkpoint: {}", failure->rank, failure->reason);
  }
  for (const StateBuffer& buffer : state_buffers(parameters, optimizer)) {
    join_parts(comm, buffer.flat);
  }
  optimizer.set_num_updates(manifest->position.num_updates);
}

}  // namespace weft
