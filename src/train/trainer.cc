#include "train/trainer.h"

#include <algorithm>
#include <cstdio>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "checkpoint/hf_config.h"
#include "checkpoint/safetensors.h"
#include "corpus/corpus.h"
#include "corpus/sequence_set.h"
#include "cost/cpu_estimate.h"
#include "plan/plan_codec.h"
#include "train/compute_rate.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

// Appends one line per step; each line is one write, so a killed run leaves whole lines.
class MetricsFile {
 public:
  explicit MetricsFile(const fs::path& path) : writer_(path) {}
  void append(const StepMetrics& metrics) {
    writer_.write(to_json_line(metrics) + "\n");
    writer_.flush();
  }

 private:
  FileWriter writer_;
};

fs::path make_output_folder(const TrainConfig& config) {
  const fs::path out = config.train.out;
  WEFT_USER_CHECK(!fs::exists(out / "metrics.jsonl"),
                  "train.out '{}' already holds a run; choose another folder or remove it",
                  out.string());
  std::error_code error;
  fs::create_directories(out, error);
  WEFT_USER_CHECK(!error, "cannot create train.out '{}': {}", out.string(), error.message());
  return out;
}

std::int32_t threads_per_rank(const TrainConfig& config) {
  const auto cores = static_cast<std::int64_t>(std::max(1u, std::thread::hardware_concurrency()));
  WEFT_USER_CHECK(
      config.train.threads_per_rank <= cores,
      "train.threads_per_rank is {}, but this machine has {} cores; set at most that, or "
      "0 for cores / ranks",
      config.train.threads_per_rank, cores);
  if (config.train.threads_per_rank > 0)
    return static_cast<std::int32_t>(config.train.threads_per_rank);
  return static_cast<std::int32_t>(std::max<std::int64_t>(1, cores / config.train.ranks));
}

// The tokenizer decides the vocabulary unless the configuration asks for a larger one.
void settle_vocabulary(const Corpus& corpus, TrainConfig& config) {
  const std::int64_t needed = corpus.description().tokenizer.vocab_size;
  if (config.model.vocab_size == 0) config.model.vocab_size = needed;
  WEFT_USER_CHECK(config.model.vocab_size >= needed,
                  "model.vocab_size is {}, but the corpus '{}' was tokenised with {} ids; set at "
                  "least that, or 0",
                  config.model.vocab_size, config.data.corpus, needed);
  check_model_config(config.model);
}

CostModel cost_model_of(const TrainConfig& config) {
  const ModelConfig& model = config.model;
  if (config.plan.cost.empty()) {
    const bool wide = parse_dtype(config.train.dtype, "train.dtype") == at::kDouble;
    return estimate_cpu_cost({.num_layers = model.num_layers,
                              .hidden_size = model.hidden_size,
                              .query_size = model.num_heads * model.head_dim,
                              .kv_size = model.num_kv_heads * model.head_dim,
                              .intermediate_size = model.intermediate_size,
                              .vocab_size = model.vocab_size,
                              .element_bytes = wide ? 8 : 4});
  }
  CostModel cost = load_cost_model(config.plan.cost);
  WEFT_USER_CHECK(cost.num_layers == model.num_layers,
                  "plan.cost '{}' is for {} layers, but model.num_layers is {}; use a cost file of "
                  "this model",
                  config.plan.cost, cost.num_layers, model.num_layers);
  return cost;
}

PlanRequest plan_request(const TrainConfig& config, const CostModel& cost) {
  PlanRequest request;
  const auto num_ranks = static_cast<std::int32_t>(config.train.ranks);
  request.cluster = uniform_cluster(num_ranks, num_ranks);
  request.cost = cost;
  request.options.strategy = config.plan.strategy;
  request.options.capacity = config.plan.capacity;
  request.options.max_context = config.data.max_context;
  request.options.weighting = parse_loss_weighting(config.data.weighting, "data.weighting");
  request.options.seed = static_cast<std::uint64_t>(config.data.seed);
  return request;
}

// The longest sequence must fit on all ranks together; known before the first step.
void check_longest_sequence(const TrainConfig& config, const SequenceSet& sequences) {
  const Tokens longest = sequences.sequence(sequences.longest_sequence_idx()).tokens();
  const std::int64_t needed = ranks_needed(longest, config.plan.capacity);
  WEFT_USER_CHECK(needed <= config.train.ranks,
                  "the corpus' longest sequence has {} tokens, but {} ranks x plan.capacity {} "
                  "hold {}; use at least "
                  "{} ranks, a larger plan.capacity, or a smaller data.max_context with "
                  "data.over_long = \"split\"",
                  longest, config.train.ranks, config.plan.capacity,
                  config.train.ranks * config.plan.capacity, needed);
}

StepLoop step_loop(const TrainConfig& config, double peak_flops_per_s) {
  StepLoop loop;
  loop.model = config.model;
  loop.dtype = parse_dtype(config.train.dtype, "train.dtype");
  loop.attention = config.train.attention;
  loop.num_ranks = static_cast<std::int32_t>(config.train.ranks);
  loop.threads_per_rank = threads_per_rank(config);
  loop.num_steps = config.train.steps;
  loop.seed = static_cast<std::uint64_t>(config.train.seed);
  loop.optimizer = {.beta1 = config.optimizer.beta1,
                    .beta2 = config.optimizer.beta2,
                    .eps = config.optimizer.eps,
                    .weight_decay = config.optimizer.weight_decay};
  loop.schedule = {.peak = config.optimizer.lr,
                   .minimum = config.optimizer.min_lr,
                   .warmup_steps = config.optimizer.warmup_steps,
                   .total_steps = config.train.steps};
  loop.step_options = {.clip_grad = config.optimizer.clip_grad,
                       .bucket_bytes = config.train.bucket_bytes};
  loop.wait_limit =
      std::chrono::nanoseconds(static_cast<std::int64_t>(config.comm.wait_limit_s * 1e9));
  loop.peak_flops_per_s = peak_flops_per_s;
  return loop;
}

std::unique_ptr<PlanFeed> planning_feed(const TrainConfig& config, const SequenceSet& sequences,
                                        const CostModel& cost, DataOrder order) {
  check_longest_sequence(config, sequences);
  return make_planning_feed(std::move(order), plan_request(config, cost));
}

// All plans are read once before the run starts: a wrong one in the middle is known now.
std::unique_ptr<PlanFeed> replay_feed(const TrainingJob& job, const TrainConfig& config,
                                      const DataOrder& order) {
  const ReplayOptions options{
      .files = list_plan_files(job.replay),
      .num_ranks = static_cast<std::int32_t>(config.train.ranks),
      .weighting = parse_loss_weighting(config.data.weighting, "data.weighting")};
  const auto rehearsal = make_replay_feed(order, options);
  for (std::int64_t step = 0; step < config.train.steps; ++step) {
    check_runnable(rehearsal->next().plan, options.num_ranks);
  }
  return make_replay_feed(order, options);
}

void print_start(const TrainingJob& job, const TrainConfig& config, const Corpus& corpus,
                 const SequenceSet& sequences, const ComputePeak& peak, const CostModel& cost) {
  fmt::print("model   {} parameters, {} layers, {}, attention {}\n", num_parameters(config.model),
             config.model.num_layers, config.train.dtype, config.train.attention);
  fmt::print("corpus  {}: {} documents, {} tokens, hash {}\n", config.data.corpus,
             corpus.num_documents(), corpus.num_tokens(), corpus.hash().hex());
  fmt::print("        {} sequences of up to {} tokens; {} documents split into {} chunks\n",
             sequences.size(), sequences.sequence(sequences.longest_sequence_idx()).tokens(),
             sequences.num_split_documents(), sequences.num_chunks());
  fmt::print("ranks   {} threads of one process x {} compute threads; {}\n", config.train.ranks,
             threads_per_rank(config), blas_description());
  if (job.replay.empty()) {
    fmt::print("plan    strategy {}, capacity {} tokens per rank and micro-batch, cost model {}\n",
               config.plan.strategy, format_count(config.plan.capacity.value()), cost.name);
  } else {
    fmt::print("plan    replayed from {}; the [plan] section of the configuration is not used\n",
               job.replay);
  }
  fmt::print("peak    {:.1f} GFLOP/s for MFU: {}\n", peak.flops_per_s * 1e-9, peak.source);
}

void save_weights(const fs::path& out, const TrainConfig& config, TokenId end_token,
                  const ParameterSet& parameters) {
  std::vector<NamedTensor> tensors;
  for (std::size_t i = 0; i < parameters.infos().size(); ++i) {
    tensors.push_back({.name = parameters.infos()[i].name, .tensor = parameters.value(i)});
  }
  save_safetensors(out / "model.safetensors", tensors, {{"format", "pt"}});
  save_hf_config(out / "config.json", config.model,
                 {.dtype = parse_dtype(config.train.dtype, "train.dtype"),
                  .max_position_embeddings = config.data.max_context,
                  .bos_token_id = std::nullopt,
                  .eos_token_id = end_token});
  fmt::print("saved   {}\n", (out / "model.safetensors").string());
}

}  // namespace

void run_training(const TrainingJob& job) {
  TrainConfig config = job.config;
  const Corpus corpus(config.data.corpus);
  settle_vocabulary(corpus, config);
  const SequenceSet sequences(corpus, config.data.max_context,
                              parse_over_long(config.data.over_long, "data.over_long"));
  DataOrder order(sequences, {.seed = static_cast<std::uint64_t>(config.data.seed),
                              .global_batch_tokens = config.data.global_batch_tokens,
                              .tail = parse_epoch_tail(config.data.tail, "data.tail")});
  const at::ScalarType dtype = parse_dtype(config.train.dtype, "train.dtype");
  const CostModel cost = cost_model_of(config);
  const auto num_ranks = static_cast<std::int32_t>(config.train.ranks);
  const auto feed = job.replay.empty() ? planning_feed(config, sequences, cost, std::move(order))
                                       : replay_feed(job, config, order);

  const fs::path out = make_output_folder(config);
  std::string effective = to_toml(config);
  if (!job.replay.empty()) {
    effective =
        fmt::format("# plans replayed from {}: [plan] was not used\n", job.replay) + effective;
  }
  write_file_atomically(out / "config.toml", effective);
  fmt::print("{}\n", effective);
  const ComputePeak peak = measure_compute_peak(dtype, num_ranks, threads_per_rank(config));
  print_start(job, config, corpus, sequences, peak, cost);

  MetricsFile metrics_file(out / "metrics.jsonl");
  StepLoop loop = step_loop(config, peak.flops_per_s);
  if (job.save_plans) fs::create_directories(out / "plans");
  loop.on_plan = [&](const StepPlan& plan) {
    if (job.save_plans) save_plan(out / "plans" / fmt::format("step-{:06}.plan", plan.step), plan);
  };
  std::int64_t num_skipped = 0;
  loop.on_step = [&](const StepMetrics& metrics) {
    metrics_file.append(metrics);
    num_skipped = metrics.skipped_steps;
    const bool last = metrics.step + 1 == config.train.steps;
    if (last || metrics.step % config.train.log_interval == 0) {
      fmt::print("{}\n", to_log_line(metrics, config.train.steps));
      std::fflush(stdout);
    }
  };
  loop.on_end = [&](const ParameterSet& parameters) {
    save_weights(out, config, corpus.description().tokenizer.end_token, parameters);
  };
  run_step_loop(loop, sequences, *feed);
  if (num_skipped > 0) {
    log_warn("{} of {} steps were skipped and changed nothing", num_skipped, config.train.steps);
  }
}

}  // namespace weft
