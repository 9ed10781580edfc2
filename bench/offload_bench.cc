// Rows of offload: forward and backward of one micro-batch on one thread, with the tier throttled
// to the rate at which the formula (ByteScale Eq. 3) hides half of the activations, r* = 0.5.
//
// The rate follows each run that keeps everything: machines are shared, and what hides a copy is
// the compute of the same minute. Times are wall times, as waiting is what is measured.
#include <filesystem>

#include "bench/harness/bench_main.h"
#include "bench/harness/measure.h"
#include "bench/harness/suite.h"
#include "bench/throttled_tier.h"
#include "loader/packed_micro_batch.h"
#include "memory/counting_allocator.h"
#include "memory/disk_tier.h"
#include "model/decoder.h"
#include "tests/support/memory_source.h"

namespace weft::bench {
namespace {

constexpr std::int64_t kTokens = 2048;
constexpr std::int64_t kLayers = 8;
constexpr double kHiddenRatio = 0.5;  // r*

const ModelConfig kModel{.vocab_size = 512,
                         .hidden_size = 256,
                         .num_layers = kLayers,
                         .num_heads = 4,
                         .num_kv_heads = 1,
                         .head_dim = 64,
                         .intermediate_size = 704,
                         .rope_theta = 10000,
                         .rms_norm_eps = 1e-5,
                         .tie_word_embeddings = true};

double activation_bytes() {
  const std::int64_t elements =
      saved_elements_per_token({.hidden_size = kModel.hidden_size,
                                .num_heads = kModel.num_heads,
                                .num_kv_heads = kModel.num_kv_heads,
                                .head_dim = kModel.head_dim,
                                .intermediate_size = kModel.intermediate_size},
                               Recompute::kNone);
  return static_cast<double>(4 * elements * kTokens);
}

struct PassTimes {
  double forward_s = 0;
  double backward_s = 0;
  Bytes peak;  // tensors beside the parameters and gradients
  Bytes offloaded;
  double total_s() const { return forward_s + backward_s; }
};

class MicroBatchRun {
 public:
  MicroBatchRun()
      : parameters_(kModel, at::kFloat),
        kernel_(make_blocked_kernel()),
        decoder_(kModel, parameters_, *kernel_) {
    set_compute_threads(1);
    set_blas_threads(1);
    parameters_.initialize(1);
    testing::MemorySource source;
    source.add(0, testing::MemorySource::random_document(1, 0, kTokens, kModel.vocab_size));
    PlanSlice slice;
    slice.sequences = source.specs();
    slice.total_weight = total_weight(slice.sequences, LossWeighting::kToken);
    MicroBatch micro_batch;
    micro_batch.pieces.push_back({.sequence_idx = 0, .group_idx = kNoGroup, .range = {0, kTokens}});
    slice.micro_batches.push_back(micro_batch);
    layout_ = make_attention_layout(slice, micro_batch);
    batch_ = pack_micro_batch(slice, micro_batch, source);
  }

  PassTimes run(OffloadTier* tier, double ratio) {
    using Clock = std::chrono::steady_clock;
    const auto seconds_since = [](Clock::time_point start) {
      return std::chrono::duration<double>(Clock::now() - start).count();
    };
    const AllocationScope scope(counter_);
    counter_.reset_peak();
    const Bytes before = counter_.live();
    OffloadMeasures measures;
    PassTimes times;
    auto start = Clock::now();
    ForwardResult result = decoder_.forward(batch_, layout_, {},
                                            {.tier = tier, .ratio = ratio, .measures = &measures});
    times.forward_s = seconds_since(start);
    start = Clock::now();
    decoder_.backward(std::move(result), batch_, layout_, {});
    times.backward_s = seconds_since(start);
    times.peak = counter_.peak() - before;
    times.offloaded = measures.bytes;
    return times;
  }

 private:
  ParameterSet parameters_;
  std::unique_ptr<AttentionKernel> kernel_;
  Decoder decoder_;
  AllocationCounter counter_;
  AttentionLayout layout_;
  PackedMicroBatch batch_;
};

// The rate at which the copy of half a layer lasts as long as its compute.
double hiding_rate(const PassTimes& kept) {
  const double layer_s = std::min(kept.forward_s, kept.backward_s) / kLayers;
  return kHiddenRatio * activation_bytes() / layer_s;
}

// What the cost model adds for copies that their layer does not hide (cost/micro_batch_time.h).
double predicted_extra_s(const PassTimes& kept, double rate, double ratio) {
  const double copy_s = ratio * activation_bytes() / rate;
  return (kLayers - 2) * (std::max(0.0, copy_s - kept.forward_s / kLayers) +
                          std::max(0.0, copy_s - kept.backward_s / kLayers));
}

struct Setting {
  MicroBatchRun run;
  DiskTier disk{std::filesystem::current_path()};
  ThrottledTier throttled{disk};
  SynchronousTier synchronous{throttled};
};

Row measured(std::string unit, Better better, std::function<double()> sample,
             std::string limit_name, std::function<double()> limit) {
  return measure({.name = {},
                  .unit = std::move(unit),
                  .better = better,
                  .sample = std::move(sample),
                  .limit_name = std::move(limit_name),
                  .limit = std::move(limit),
                  .least_samples = 5,
                  .most_samples = 9,
                  .enough_s = 30});
}

// r = r*: seconds, against the run that keeps everything.
Row hidden_row() {
  Setting setting;
  PassTimes kept, offloaded;
  Row row = measured(
      "s", Better::kLower,
      [&] {
        offloaded = setting.run.run(&setting.throttled, kHiddenRatio);
        return offloaded.total_s();
      },
      "all activations kept",
      [&] {
        kept = setting.run.run(nullptr, 0);
        setting.throttled.set_rate(hiding_rate(kept));
        return kept.total_s();
      });
  const double formula = kHiddenRatio * (kLayers - 2) * activation_bytes();
  row.counters = {
      {"bytes_saved", static_cast<double>((kept.peak - offloaded.peak).value())},
      {"saved_of_formula", static_cast<double>((kept.peak - offloaded.peak).value()) / formula},
      {"page_cache_bytes", static_cast<double>(setting.disk.page_cache_bytes().value())},
      {"offload_bytes_per_s", hiding_rate(kept)}};
  return row;
}

// r = 1: seconds beyond the run that keeps everything, against the predicted ones.
Row exposed_row() {
  Setting setting;
  PassTimes kept;
  return measured(
      "s", Better::kLower,
      [&] { return setting.run.run(&setting.throttled, 1).total_s() - kept.total_s(); },
      "extra time of the cost model",
      [&] {
        kept = setting.run.run(nullptr, 0);
        const double rate = hiding_rate(kept);
        setting.throttled.set_rate(rate);
        return predicted_extra_s(kept, rate, 1);
      });
}

// The control: seconds beyond the run that keeps everything without overlap, against with it.
Row synchronous_row() {
  Setting setting;
  PassTimes kept;
  constexpr double kLeast = 1e-3;  // of the run: below it there is nothing to divide by
  return measured(
      "s", Better::kHigher,
      [&] {
        return setting.run.run(&setting.synchronous, kHiddenRatio).total_s() - kept.total_s();
      },
      "the same with overlap",
      [&] {
        kept = setting.run.run(nullptr, 0);
        setting.throttled.set_rate(hiding_rate(kept));
        const double extra_s =
            setting.run.run(&setting.throttled, kHiddenRatio).total_s() - kept.total_s();
        return std::max(extra_s, kLeast * kept.total_s());
      });
}

// r = 1 at whatever the disk does.
Row disk_row() {
  Setting setting;
  PassTimes offloaded;
  Row row = measured(
      "s", Better::kLower,
      [&] {
        offloaded = setting.run.run(&setting.disk, 1);
        return offloaded.total_s();
      },
      "all activations kept", [&] { return setting.run.run(nullptr, 0).total_s(); });
  row.counters = {
      {"offloaded_bytes", static_cast<double>(offloaded.offloaded.value())},
      {"page_cache_bytes", static_cast<double>(setting.disk.page_cache_bytes().value())}};
  return row;
}

int run(int argc, char** argv) {
  install_counting_allocator();
  Suite suite;
  suite.add("offload/throttled/r0.5", hidden_row);
  suite.add("offload/throttled/r1", exposed_row);
  suite.add("offload/throttled/synchronous", synchronous_row);
  suite.add("offload/disk/r1", disk_row);
  return suite.run(parse_selection(argc, argv));
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) { return weft::bench::bench_main(argc, argv, weft::bench::run); }
