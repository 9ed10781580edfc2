#include "train/offload_setup.h"

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "comm/collectives.h"
#include "comm/gather_text.h"
#include "memory/disk_tier.h"
#include "memory/offload_rate.h"
#include "memory/recompute.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr Rank kHead{0};

// What a run left in OUT/config.toml; 0 when there is none, or it offloaded elsewhere.
double recorded_rate(const TrainConfig& config) {
  const fs::path path = fs::path(config.train.out) / "config.toml";
  if (!fs::exists(path)) return 0;
  try {
    const TrainConfig before = parse_train_config(read_text_file(path), path.string(), {});
    const bool same_place = before.memory.offload == config.memory.offload &&
                            before.memory.offload_path == config.memory.offload_path;
    return same_place ? before.memory.offload_bytes_per_second : 0;
  } catch (const UserError&) {
    return 0;  // of another version: nothing of it is used
  }
}

}  // namespace

bool offloads(const TrainConfig& config) { return config.memory.offload != "none"; }

fs::path offload_folder(const TrainConfig& config) {
  return config.memory.offload_path.empty() ? config.train.out : config.memory.offload_path;
}

OffloadRate settle_offload_rate(const TrainConfig& config, std::int32_t ranks_on_host) {
  if (config.memory.offload_path.empty()) {
    std::error_code error;
    fs::create_directories(config.train.out, error);
    WEFT_USER_CHECK(!error, "cannot create train.out '{}': {}", config.train.out, error.message());
  }
  DiskTier tier(offload_folder(config));
  if (!tier.direct()) {
    log_warn(
        "offload: the file system of '{}' has no direct input and output; what is written there is "
        "evicted from the page cache at once, which is slower",
        offload_folder(config).string());
  }
  if (config.memory.offload_bytes_per_second > 0)
    return {config.memory.offload_bytes_per_second, "given"};
  if (const double recorded = recorded_rate(config); recorded > 0)
    return {recorded, fmt::format("as before, from {}/config.toml", config.train.out)};
  // Two digits: what follows is not sharper, and the number is copied by hand.
  const double measured = measure_offload_rate(tier) / ranks_on_host;
  return {std::stod(fmt::format("{:.2g}", measured)), "measured"};
}

OffloadRate share_offload_rate(Communicator& comm, const TrainConfig& config,
                               std::int32_t ranks_on_host) {
  OffloadRate rate;
  if (comm.rank() == kHead) rate = settle_offload_rate(config, ranks_on_host);
  broadcast(comm, kHead, std::as_writable_bytes(std::span(&rate.bytes_per_second, 1)),
            {.operation = "offload rate"});
  return rate;
}

std::function<std::unique_ptr<OffloadTier>()> offload_tier_maker(const TrainConfig& config) {
  if (!offloads(config)) return {};
  return [folder = offload_folder(config)] { return std::make_unique<DiskTier>(folder); };
}

void add_offload_terms(const TrainConfig& config, CostModel& cost) {
  const ModelConfig& model = config.model;
  const std::int64_t elements =
      saved_elements_per_token(layer_sizes(model), parse_recompute(config.memory.recompute));
  const bool wide = parse_dtype(config.train.dtype, "train.dtype") == at::kDouble;
  cost.activation_bytes_per_token = static_cast<double>(elements * (wide ? 8 : 4));
  cost.offload_bytes_per_second = config.memory.offload_bytes_per_second;
}

}  // namespace weft
