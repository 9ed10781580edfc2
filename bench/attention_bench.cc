// The attention kernel through attention_forward and attention_backward: whole long sequences and
// packs of short ones on one thread, the same with AVX2, and what a second thread gains. Useful
// FLOPs only: the causal half counts, masked tiles do not.
#include <hwy/targets.h>

#include <chrono>

#include "attention/attention.h"
#include "attention/work_team.h"
#include "base/error.h"
#include "bench/harness/bench_main.h"
#include "bench/harness/limits.h"
#include "bench/harness/measure.h"
#include "bench/harness/suite.h"
#include "machine/work_clock.h"
#include "memory/counting_allocator.h"

namespace weft::bench {
namespace {

struct Case {
  std::int64_t head_dim = 64;
  std::int64_t num_documents = 1;
  std::int64_t tokens = 4096;  // of the longest document
  std::int64_t shortest = tokens;

  // Evenly from the shortest to the longest.
  std::int64_t tokens_of(std::int64_t document) const {
    if (num_documents == 1) return tokens;
    return shortest + (tokens - shortest) * document / (num_documents - 1);
  }
};

// Four query heads on one key/value head, 256 columns in all for both head sizes.
AttentionShape shape_of(const Case& one) {
  return {.num_heads = 256 / one.head_dim,
          .num_kv_heads = std::max<std::int64_t>(1, 64 / one.head_dim),
          .head_dim = one.head_dim};
}

struct Inputs {
  explicit Inputs(const Case& one) : shape(shape_of(one)) {
    std::int64_t pairs = 0;
    for (std::int64_t i = 0; i < one.num_documents; ++i) {
      layout.whole.push_back({.row = layout.num_rows, .range = {0, one.tokens_of(i)}});
      layout.num_rows += one.tokens_of(i);
      pairs += causal_work({0, one.tokens_of(i)});
    }
    at::manual_seed(1);
    q = at::randn({layout.num_rows, shape.num_heads, shape.head_dim});
    k = at::randn({layout.num_rows, shape.num_kv_heads, shape.head_dim});
    v = at::randn({layout.num_rows, shape.num_kv_heads, shape.head_dim});
    d_out = at::randn({layout.num_rows, shape.num_heads, shape.head_dim});
    head_pairs = static_cast<double>(pairs * shape.num_heads * shape.head_dim);
  }

  AttentionShape shape;
  AttentionLayout layout;
  at::Tensor q;           // [T, H, D]
  at::Tensor k, v;        // [T, K, D]
  at::Tensor d_out;       // [T, H, D]
  double head_pairs = 0;  // causal pairs x heads x head_dim
};

// Forward: scores and their product with V, 2 x 2 FLOPs per causal pair, head and column. Backward:
// scores again, dP, dV, dQ, dK: 5 x 2.
Row attention_row(const Case& one, bool is_backward) {
  set_compute_threads(1);
  set_blas_threads(1);
  const Inputs in(one);
  const auto kernel = make_blocked_kernel();
  const auto forward = [&] {
    return attention_forward(*kernel, in.layout, in.shape, in.q, in.k, in.v, {});
  };
  const AttentionResult result = forward();
  const double flops = in.head_pairs * (is_backward ? 10 : 4);
  return measure({.name = {},
                  .unit = "GFLOP/s",
                  .sample =
                      [&] {
                        const WorkClock clock;
                        if (is_backward) {
                          attention_backward(*kernel, in.layout, in.shape, in.q, in.k, in.v, result,
                                             in.d_out, {});
                        } else {
                          forward();
                        }
                        return 1e-9 * flops / clock.elapsed_s();
                      },
                  .limit_name = kFmaPeakName,
                  .limit = [] { return fma_gflops(); },
                  .least_samples = 3,
                  .most_samples = 20});
}

#if HWY_ARCH_X86
// Row and limit with the vectors of processors that have no wider ones.
Row avx2_row(const Case& one, bool is_backward) {
  WEFT_USER_CHECK((hwy::SupportedTargets() & HWY_AVX2) != 0, "this processor has no AVX2");
  hwy::SetSupportedTargetsForTest(HWY_AVX2);
  Row row = attention_row(one, is_backward);
  hwy::SetSupportedTargetsForTest(0);
  return row;
}
#endif

template <class Work>
double wall_s(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Multiply-adds from registers, shared out as the kernel shares its blocks.
double fma_wall_s(int num_threads) {
  constexpr std::int64_t kTasks = 400, kSteps = 20'000;  // some 30 ms on one thread
  WorkTeam team(num_threads);
  return wall_s(
      [&] { team.run(kTasks, [](std::int64_t, int) { run_fma_float(kSteps, 0.5F, 0.5F); }); });
}

// Wall time of one thread over that of two, against the same of a loop of multiply-adds.
Row threads_row(const Case& one, bool is_backward) {
  set_compute_threads(1);
  const Inputs in(one);
  const auto kernel_of_one = make_blocked_kernel(1), kernel_of_two = make_blocked_kernel(2);
  const auto forward = [&](const AttentionKernel& kernel) {
    return attention_forward(kernel, in.layout, in.shape, in.q, in.k, in.v, {});
  };
  const AttentionResult result = forward(*kernel_of_one);
  const auto seconds = [&](const AttentionKernel& kernel) {
    return wall_s([&] {
      if (is_backward) {
        attention_backward(kernel, in.layout, in.shape, in.q, in.k, in.v, result, in.d_out, {});
      } else {
        forward(kernel);
      }
    });
  };
  return measure({.name = {},
                  .unit = "x one thread",
                  .sample = [&] { return seconds(*kernel_of_one) / seconds(*kernel_of_two); },
                  .limit_name = "fma loop on two threads",
                  .limit = [] { return fma_wall_s(1) / fma_wall_s(2); },
                  .least_samples = 5,
                  .most_samples = 40,
                  .enough_s = 5});
}

int run(int argc, char** argv) {
  install_counting_allocator();  // as in training: tensors reuse each other's memory
  Suite suite;
  for (const bool is_backward : {false, true}) {
    for (const std::int64_t head_dim : {64, 128}) {
      const std::string prefix =
          fmt::format("attention_{}/d{}/", is_backward ? "backward" : "forward", head_dim);
      for (const std::int64_t tokens : {4096, 16384}) {
        const Case one{.head_dim = head_dim, .num_documents = 1, .tokens = tokens};
        suite.add(fmt::format("{}{}", prefix, tokens),
                  [=] { return attention_row(one, is_backward); });
      }
      for (const std::int64_t tokens : {64, 512}) {
        const Case one{.head_dim = head_dim, .num_documents = 64, .tokens = tokens};
        suite.add(fmt::format("{}pack-64-{}", prefix, tokens),
                  [=] { return attention_row(one, is_backward); });
      }
      const Case mixed{.head_dim = head_dim, .num_documents = 64, .tokens = 512, .shortest = 64};
      suite.add(prefix + "pack-64-64to512", [=] { return attention_row(mixed, is_backward); });
    }
  }
#if HWY_ARCH_X86
  for (const bool is_backward : {false, true}) {
    for (const std::int64_t head_dim : {64, 128}) {
      const Case whole{.head_dim = head_dim, .num_documents = 1, .tokens = 4096};
      suite.add(
          fmt::format("attention_avx2/{}/d{}/4096", is_backward ? "backward" : "forward", head_dim),
          [=] { return avx2_row(whole, is_backward); });
    }
  }
#endif
  for (const bool is_backward : {false, true}) {
    const std::string prefix =
        fmt::format("attention_2threads/{}/d64/", is_backward ? "backward" : "forward");
    const Case whole{.head_dim = 64, .num_documents = 1, .tokens = 4096};
    const Case pack{.head_dim = 64, .num_documents = 64, .tokens = 512};
    suite.add(prefix + "4096", [=] { return threads_row(whole, is_backward); });
    suite.add(prefix + "pack-64-512", [=] { return threads_row(pack, is_backward); });
  }
  return suite.run(parse_selection(argc, argv));
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) { return weft::bench::bench_main(argc, argv, weft::bench::run); }
