// A whole training step (forward, backward, clipping, AdamW) on one rank and one thread, and the
// same step as a plain libtorch autograd model. The share of the FMA peak is the MFU.
#include <cmath>

#include "bench/autograd_decoder.h"
#include "bench/harness/bench_main.h"
#include "bench/harness/limits.h"
#include "bench/harness/measure.h"
#include "bench/harness/suite.h"
#include "comm/thread/thread_world.h"
#include "cost/reference_cost.h"
#include "machine/memory_size.h"
#include "machine/work_clock.h"
#include "memory/counting_allocator.h"
#include "plan/plan_codec.h"
#include "plan/planner.h"
#include "tests/support/memory_source.h"
#include "train/train_step.h"

namespace weft::bench {
namespace {

constexpr double kLearningRate = 1e-4;
constexpr std::uint64_t kSeed = 1;
constexpr Bytes kAutogradMemory = 10240_MiB;  // [16, 4096, 4096] scores, a few times

const ModelConfig kModel{.vocab_size = 8192,
                         .hidden_size = 1024,
                         .num_layers = 2,
                         .num_heads = 16,
                         .num_kv_heads = 4,
                         .head_dim = 64,
                         .intermediate_size = 2816,
                         .rope_theta = 10000,
                         .rms_norm_eps = 1e-5,
                         .tie_word_embeddings = true};

// A micro-batch of `num_documents` documents of `tokens` each.
struct Batch {
  std::int64_t num_documents = 1;
  std::int64_t tokens = 4096;
  std::int64_t all_tokens() const { return num_documents * tokens; }
  double flops() const {
    const std::int64_t pairs = num_documents * tokens * (tokens + 1) / 2;
    return static_cast<double>(training_flops(kModel, Tokens(all_tokens()), pairs).value());
  }
};

testing::MemorySource documents_of(const Batch& batch) {
  testing::MemorySource source;
  for (std::int64_t id = 0; id < batch.num_documents; ++id) {
    source.add(id,
               testing::MemorySource::random_document(kSeed, id, batch.tokens, kModel.vocab_size));
  }
  return source;
}

PlanSlice slice_of(const testing::MemorySource& source, const Batch& batch) {
  PlanRequest request;
  request.sequences = source.specs();
  request.cluster = uniform_cluster(1, 1);
  request.cost = reference_cost_7b();
  request.options.capacity = Tokens(batch.all_tokens());
  const StepPlan plan = make_plan(request);
  return slice_plan(plan, plan_hash(plan), Rank(0));
}

struct Model {
  Model()
      : parameters(kModel, at::kFloat),
        kernel(make_blocked_kernel()),
        decoder(kModel, parameters, *kernel) {
    parameters.initialize(kSeed);
  }
  ParameterSet parameters;
  std::unique_ptr<AttentionKernel> kernel;
  Decoder decoder;
};

// tokens/s of `step`; the limit is what the FMA peak would give, so the share is the MFU.
Row tokens_row(const Batch& batch, const std::function<void()>& step) {
  const double tokens = static_cast<double>(batch.all_tokens());
  const double flops = batch.flops();
  Row row = measure({.name = {},
                     .unit = "tokens/s",
                     .sample =
                         [&] {
                           const WorkClock clock;
                           step();
                           return tokens / clock.elapsed_s();
                         },
                     .limit_name = kFmaPeakName,
                     .limit = [&] { return tokens * 1e9 * fma_gflops() / flops; },
                     .least_samples = 2,
                     .most_samples = 3,
                     .enough_s = 20});
  row.counters = {{"mfu", share(row)},
                  {"gflops", 1e-9 * flops * median(row.samples) / tokens},
                  {"parameters", static_cast<double>(num_parameters(kModel))}};
  return row;
}

Row weft_step(const Batch& batch) {
  Row row;
  set_blas_threads(1);
  run_thread_ranks({.num_ranks = 1}, [&](Communicator& comm) {
    set_compute_threads(1);
    const testing::MemorySource source = documents_of(batch);
    const PlanSlice slice = slice_of(source, batch);
    Model model;
    AdamW optimizer(model.parameters, {});
    RankState rank{.comm = comm,
                   .source = source,
                   .parameters = model.parameters,
                   .decoder = model.decoder,
                   .optimizer = optimizer,
                   .schedule = {.peak = kLearningRate, .minimum = kLearningRate},
                   .options = {}};
    PhaseClock clock(comm);
    row = tokens_row(batch, [&] {
      clock.start(Phase::kPlan);
      train_step(rank, slice, clock);
    });
  });
  return row;
}

struct Rows {
  at::Tensor tokens, targets;  // [T - 1]: the last token predicts nothing
};

Rows rows_of(const testing::MemorySource& source, std::int64_t id) {
  const auto& document = source.at(id);
  const auto count = static_cast<std::int64_t>(document.tokens.size()) - 1;
  const auto take = [&](const std::vector<TokenId>& values) {
    return at::tensor(at::ArrayRef<TokenId>(values), at::kInt).narrow(0, 0, count).to(at::kLong);
  };
  return {take(document.tokens), take(document.targets)};
}

// Both must be the same model, or their speeds mean nothing.
void check_same_loss(Model& model, AutogradDecoder& autograd) {
  const Batch batch{.num_documents = 1, .tokens = 128};
  const testing::MemorySource source = documents_of(batch);
  const PlanSlice slice = slice_of(source, batch);
  const MicroBatch& micro_batch = slice.micro_batches.front();
  const double ours = model.decoder
                          .forward(pack_micro_batch(slice, micro_batch, source),
                                   make_attention_layout(slice, micro_batch), {})
                          .loss;
  const Rows rows = rows_of(source, 0);
  const double theirs = autograd.loss_of(rows.tokens, rows.targets);
  WEFT_CHECK(std::abs(ours - theirs) < 1e-4 * std::abs(theirs),
             "Weft's loss {} differs from the autograd model's {}", ours, theirs);
}

Row autograd_step(const Batch& batch) {
  const Bytes usable = read_memory_size(system_text()).usable();
  WEFT_USER_CHECK(usable >= kAutogradMemory, "needs {} of memory for dense attention, {} are free",
                  format_bytes(kAutogradMemory), format_bytes(usable));
  set_blas_threads(1);
  set_compute_threads(1);
  Model model;
  AutogradDecoder autograd(kModel, model.parameters);
  check_same_loss(model, autograd);
  const Rows rows = rows_of(documents_of(batch), 0);
  return tokens_row(batch, [&] { autograd.step(rows.tokens, rows.targets, kLearningRate); });
}

int run(int argc, char** argv) {
  install_counting_allocator();  // as in training: tensors reuse each other's memory
  Suite suite;
  const Batch one{.num_documents = 1, .tokens = 4096};
  suite.add("step/h1024-l2/4096", [=] { return weft_step(one); });
  suite.add("step/h1024-l2/pack-64-64",
            [] { return weft_step({.num_documents = 64, .tokens = 64}); });
  suite.add("step_autograd/h1024-l2/4096", [=] { return autograd_step(one); });
  return suite.run(parse_selection(argc, argv));
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) { return weft::bench::bench_main(argc, argv, weft::bench::run); }
