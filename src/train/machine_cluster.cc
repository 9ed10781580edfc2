#include "train/machine_cluster.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "cost/measured_cluster.h"
#include "machine/core_count.h"
#include "machine/disk_probe.h"
#include "machine/memory_size.h"
#include "train/compute_rate.h"

namespace weft {
namespace {

ModelShape shape_of(const ModelConfig& config) {
  return {.name = fmt::format("{} layers of {}", config.num_layers, config.hidden_size),
          .source = "the profiled configuration",
          .num_layers = config.num_layers,
          .hidden_size = config.hidden_size,
          .num_heads = config.num_heads,
          .num_kv_heads = config.num_kv_heads,
          .head_dim = config.head_dim,
          .intermediate_size = config.intermediate_size,
          .vocab_size = config.vocab_size,
          .tie_word_embeddings = config.tie_word_embeddings};
}

}  // namespace

ClusterDescription machine_cluster(const ProfileOptions& options, const Profile& profile,
                                   const std::filesystem::path& folder) {
  const std::int32_t threads = options.model.threads;
  const DiskSpeed disk = measure_disk_speed(folder, Bytes(256 << 20), std::chrono::seconds(2));
  const auto space = file_system_space(folder);
  WEFT_USER_CHECK(disk.error.empty() && space, "profile: {}: {}", folder.string(), disk.error);
  const MeasuredMachine machine{
      .num_devices = std::max(1, count_cores(system_text()).usable() / threads),
      .peak_flops_per_second =
          measure_virtual_peak(options.model.dtype, 1).flops_per_s * static_cast<double>(threads),
      .memory_bytes = static_cast<double>(read_memory_size(system_text()).usable().value()),
      .disk_bytes_per_second = disk.write_bytes_per_s,
      .disk_free_bytes = static_cast<double>(space->free.value())};
  return measured_cluster("this machine", shape_of(options.model.model), profile.cost, machine);
}

}  // namespace weft
