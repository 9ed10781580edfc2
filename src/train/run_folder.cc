#include "train/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/hf_config.h"
#include "checkpoint/safetensors.h"
#include "plan/plan_codec.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

}  // namespace

RunLock::RunLock(const fs::path& out) {
  std::error_code error;
  fs::create_directories(out, error);
  WEFT_USER_CHECK(!error, "cannot create train.out '{}': {}", out.string(), error.message());
  const fs::path path = out / ".lock";
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  WEFT_USER_CHECK(fd_ >= 0, "cannot write train.out: '{}': {}", path.string(),
                  std::strerror(errno));
  if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) return;
  const int reason = errno;
  ::close(fd_);
  WEFT_USER_CHECK(reason != EWOULDBLOCK,
                  "another process is training into train.out '{}'; wait for it, or choose "
                  "another folder",
                  out.string());
  throw_user_error("cannot lock '{}': {}", path.string(), std::strerror(reason));
}

RunLock::~RunLock() { ::close(fd_); }

RunFolder::RunFolder(const RunSetup& setup, std::int64_t first_step, bool saves_plans)
    : setup_(setup),
      out_(setup.config().train.out),
      saves_plans_(saves_plans),
      metrics_(out_, first_step) {
  write_file_atomically(out_ / "config.toml", setup.effective_config());
  save_cost_model(out_ / "cost.json", setup.cost());
  if (saves_plans_) fs::create_directories(out_ / "plans");
}

void RunFolder::on_plan(const StepPlan& plan) {
  if (!saves_plans_) return;
  save_plan(out_ / "plans" / fmt::format("step-{:06}.plan", plan.step), plan);
}

void RunFolder::on_step(const StepMetrics& metrics) {
  metrics_.append(to_json_line(metrics));
  const RunConfig& run = setup_.config().train;
  const bool last = metrics.step + 1 == run.steps;
  if (!last && metrics.step % run.log_interval != 0) return;
  fmt::print("{}\n", to_log_line(metrics, run.steps));
  std::fflush(stdout);
}

void RunFolder::on_finished(const ParameterSet& parameters) {
  std::vector<NamedTensor> tensors;
  for (std::size_t i = 0; i < parameters.infos().size(); ++i) {
    tensors.push_back({.name = parameters.infos()[i].name, .tensor = parameters.value(i)});
  }
  const TrainConfig& config = setup_.config();
  save_safetensors(out_ / "model.safetensors", tensors, {{"format", "pt"}});
  save_hf_config(out_ / "config.json", config.model,
                 {.dtype = parse_dtype(config.train.dtype, "train.dtype"),
                  .max_position_embeddings = config.data.max_context,
                  .bos_token_id = std::nullopt,
                  .eos_token_id = setup_.corpus().description().tokenizer.end_token});
  fmt::print("wrote   {}\n", (out_ / "model.safetensors").string());
}

std::filesystem::path RunFolder::on_trace(std::int64_t step, std::span<const RankTrace> ranks) {
  const auto folder = out_ / "trace";
  std::filesystem::create_directories(folder);
  const auto path = folder / fmt::format("step-{:06}.json", step);
  write_file_atomically(path, chrome_trace(ranks, step));
  return path;
}

void RunFolder::close() { metrics_.close(); }

}  // namespace weft
