#include "train/run_setup.h"

#include <algorithm>

#include "base/error.h"
#include "cost/cpu_estimate.h"
#include "machine/core_count.h"
#include "plan/offload.h"
#include "train/plan_ahead.h"
#include "train/resume.h"

namespace weft {
namespace {

// The tokenizer decides the vocabulary unless the configuration asks for a larger one.
TrainConfig settle(TrainConfig config, const Corpus& corpus, std::int32_t num_ranks) {
  config.train.ranks = num_ranks;
  const std::int64_t needed = corpus.description().tokenizer.vocab_size;
  if (config.model.vocab_size == 0) config.model.vocab_size = needed;
  WEFT_USER_CHECK(config.model.vocab_size >= needed,
                  "model.vocab_size is {}, but the corpus '{}' was tokenised with {} ids; set at "
                  "least that, or 0",
                  config.model.vocab_size, config.data.corpus, needed);
  check_model_config(config.model);
  return config;
}

CostModel read_cost_model(const TrainConfig& config) {
  const ModelConfig& model = config.model;
  if (config.plan.cost.empty()) {
    const bool wide = parse_dtype(config.train.dtype, "train.dtype") == at::kDouble;
    CostModel cost = estimate_cpu_cost({.num_layers = model.num_layers,
                                        .hidden_size = model.hidden_size,
                                        .query_size = model.num_heads * model.head_dim,
                                        .kv_size = model.num_kv_heads * model.head_dim,
                                        .intermediate_size = model.intermediate_size,
                                        .vocab_size = model.vocab_size,
                                        .element_bytes = wide ? 8 : 4});
    // Backward runs the whole forward again. What attention alone adds is left out: it is no fixed
    // share of backward.
    if (config.memory.recompute == "full") cost.backward_ratio += 1;
    return cost;
  }
  CostModel cost = load_cost_model(config.plan.cost);
  WEFT_USER_CHECK(cost.num_layers == model.num_layers,
                  "plan.cost '{}' is for {} layers, but model.num_layers is {}; use a cost file of "
                  "this model",
                  config.plan.cost, cost.num_layers, model.num_layers);
  return cost;
}

CostModel cost_model_of(const TrainConfig& config) {
  CostModel cost = read_cost_model(config);
  if (offloads(config)) add_offload_terms(config, cost);
  return cost;
}

PlanRequest plan_request(const TrainConfig& config, const CostModel& cost,
                         std::int32_t ranks_per_node) {
  PlanRequest request;
  const auto num_ranks = static_cast<std::int32_t>(config.train.ranks);
  request.cluster = uniform_cluster(num_ranks, ranks_per_node);
  request.cost = cost;
  request.options.strategy = config.plan.strategy;
  request.options.capacity = config.plan.capacity;
  request.options.offload = offloads(config);
  request.options.max_context = config.data.max_context;
  request.options.weighting = parse_loss_weighting(config.data.weighting, "data.weighting");
  request.options.seed = static_cast<std::uint64_t>(config.data.seed);
  return request;
}

// Layers whose activations plans may offload, 0: none; see check_runnable.
std::int32_t offload_layers(const TrainConfig& config) {
  return static_cast<std::int32_t>(offloads(config) ? config.model.num_layers : 0);
}

// The longest sequence must fit on all ranks together; known before the first step.
void check_longest_sequence(const TrainConfig& config, const CostModel& cost,
                            const MemoryBudget& memory, Tokens longest) {
  const std::int64_t needed = offloads(config)
                                  ? least_degree_with_offload(cost, longest, config.plan.capacity)
                                  : ranks_needed(longest, config.plan.capacity);
  WEFT_USER_CHECK(needed <= config.train.ranks || memory.bytes == Bytes(0),
                  "the corpus' longest sequence has {} tokens, but {} ranks x plan.capacity {} "
                  "hold {}, and memory.budget_bytes is {}. What would fit: {}; or a smaller "
                  "data.max_context with data.over_long = \"split\"",
                  longest, config.train.ranks, config.plan.capacity,
                  config.train.ranks * config.plan.capacity, format_bytes(memory.bytes),
                  what_would_fit(config, memory, longest));
  WEFT_USER_CHECK(needed <= config.train.ranks,
                  "the corpus' longest sequence has {} tokens, but {} ranks x plan.capacity {} "
                  "hold {}{}; use at least {} ranks, a larger plan.capacity, or a smaller "
                  "data.max_context with data.over_long = \"split\"",
                  longest, config.train.ranks, config.plan.capacity,
                  config.train.ranks * config.plan.capacity,
                  offloads(config) ? " and what can be offloaded while they compute" : "", needed);
}

}  // namespace

std::int32_t settle_threads(const TrainConfig& config, std::int32_t ranks_on_host) {
  const auto cores = static_cast<std::int64_t>(count_cores(system_text()).usable());
  const std::int64_t asked = config.train.threads_per_rank;
  WEFT_USER_CHECK(asked <= cores,
                  "train.threads_per_rank is {}, but this process may use {} cores; set at most "
                  "that, or 0 for cores / ranks",
                  asked, cores);
  const std::int64_t share = std::max<std::int64_t>(1, cores / ranks_on_host);
  return static_cast<std::int32_t>(asked > 0 ? asked : share);
}

RunSetup::RunSetup(TrainConfig config, RankPlacement placement, std::string replay,
                   const std::function<OffloadRate(const TrainConfig&)>& settle_rate)
    : placement_(std::move(placement)),
      replay_(std::move(replay)),
      corpus_(config.data.corpus),
      sequences_(corpus_, config.data.max_context,
                 parse_over_long(config.data.over_long, "data.over_long")) {
  config_ = settle(std::move(config), corpus_, placement_.num_ranks);
  threads_per_rank_ = settle_threads(config_, placement_.ranks_on_host);
  if (offloads(config_) && replay_.empty()) {
    WEFT_USER_CHECK(config_.plan.strategy == "hdp",
                    "memory.offload: plans of strategy 'hdp' alone can offload, but plan.strategy "
                    "is '{}'; set memory.offload = \"none\", or leave plan.strategy out",
                    config_.plan.strategy);
    offload_rate_ = settle_rate(config_);
    config_.memory.offload_bytes_per_second = offload_rate_.bytes_per_second;
  }
  cost_ = cost_model_of(config_);
  memory_ = memory_budget(config_, threads_per_rank_);
  data_order();  // its own checks
  if (!replay_.empty()) return;
  const Tokens longest = sequences_.sequence(sequences_.longest_sequence_idx()).tokens();
  config_.plan.capacity = settle_capacity(config_, memory_, longest);
  check_longest_sequence(config_, cost_, memory_, longest);
}

DataOrder RunSetup::data_order() const {
  return DataOrder(sequences_, {.seed = static_cast<std::uint64_t>(config_.data.seed),
                                .global_batch_tokens = config_.data.global_batch_tokens,
                                .tail = parse_epoch_tail(config_.data.tail, "data.tail")});
}

std::unique_ptr<PlanFeed> RunSetup::make_feed(DataOrder order, std::int64_t first_step) const {
  if (replay_.empty()) {
    PlanRequest request = plan_request(config_, cost_, placement_.ranks_per_node);
    request.options.step = first_step;
    return make_planning_feed(std::move(order), std::move(request));
  }
  const ReplayOptions options{
      .files = list_plan_files(replay_),
      .num_ranks = placement_.num_ranks,
      .weighting = parse_loss_weighting(config_.data.weighting, "data.weighting"),
      .first_step = first_step};
  const auto rehearsal = make_replay_feed(order, options);
  for (std::int64_t step = first_step; step < config_.train.steps; ++step) {
    prepare_step(rehearsal->next(), {.num_ranks = options.num_ranks,
                                     .offload_layers = offload_layers(config_),
                                     .memory = memory_});
  }
  return make_replay_feed(std::move(order), options);
}

StepLoop RunSetup::make_loop() const {
  const TrainConfig& config = config_;
  StepLoop loop;
  loop.model = config.model;
  loop.dtype = parse_dtype(config.train.dtype, "train.dtype");
  loop.attention = config.train.attention;
  loop.recompute = parse_recompute(config.memory.recompute);
  loop.num_ranks = static_cast<std::int32_t>(config.train.ranks);
  loop.threads_per_rank = threads_per_rank_;
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
  loop.memory = memory_;
  loop.wait_limit = wait_limit(config.comm);
  loop.checkpoints = {.folder = checkpoint_folder(config.train.out),
                      .keep_last = config.train.keep_last};
  loop.plans_ahead = config.plan.steps_ahead;
  loop.save_interval = config.train.save_interval;
  loop.corpus_hash = corpus_.hash();
  loop.config = effective_config();
  loop.make_offload_tier = offload_tier_maker(config);
  return loop;
}

std::string RunSetup::effective_config() const {
  const std::string text = to_toml(config_);
  if (replay_.empty()) return text;
  return fmt::format("# plans replayed from {}: [plan] was not used\n", replay_) + text;
}

void RunSetup::print_offload() const {
  fmt::print("offload to files without a name in {}", offload_folder(config_).string());
  if (!replay_.empty()) {
    fmt::print(", as the plans say\n");
  } else {
    fmt::print(", {}/s a rank: {}\n",
               format_bytes(Bytes(static_cast<std::int64_t>(offload_rate_.bytes_per_second))),
               offload_rate_.source);
  }
}

void RunSetup::print_start(const ComputePeak& peak) const {
  fmt::print("model   {} parameters, {} layers, {}, attention {}\n", num_parameters(config_.model),
             config_.model.num_layers, config_.train.dtype, config_.train.attention);
  fmt::print("corpus  {}: {} documents, {} tokens, hash {}\n", config_.data.corpus,
             corpus_.num_documents(), corpus_.num_tokens(), corpus_.hash().hex());
  fmt::print("        {} sequences of up to {} tokens; {} documents split into {} chunks\n",
             sequences_.size(), sequences_.sequence(sequences_.longest_sequence_idx()).tokens(),
             sequences_.num_split_documents(), sequences_.num_chunks());
  fmt::print("ranks   {} x {} compute threads; {}\n", placement_.description, threads_per_rank_,
             blas_description());
  if (replay_.empty()) {
    fmt::print("plan    strategy {}, capacity {} tokens per rank and micro-batch, cost model {}\n",
               config_.plan.strategy, format_count(config_.plan.capacity.value()), cost_.name);
  } else {
    fmt::print("plan    replayed from {}; the [plan] section of the configuration is not used\n",
               replay_);
  }
  print_memory();
  if (offloads(config_)) print_offload();
  fmt::print("peak    {:.1f} GFLOP/s for MFU: {}\n", peak.flops_per_s * 1e-9, peak.source);
}

void RunSetup::print_memory() const {
  const std::string budget =
      memory_.bytes > Bytes(0) ? fmt::format(" of budget {}", format_bytes(memory_.bytes)) : "";
  if (!replay_.empty()) {
    const MemoryParts states = predict_peak(memory_.shape, MicroBatchSize());
    fmt::print("memory  {}{} per rank before the micro-batches of the plans ({})\n",
               format_bytes(states.total()), budget, describe_parts(states));
    return;
  }
  const MemoryParts parts = predict_largest(config_, memory_);
  fmt::print("memory  predicted peak {}{} per rank ({})\n", format_bytes(parts.total()), budget,
             describe_parts(parts));
}

}  // namespace weft
