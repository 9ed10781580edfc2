#include "optim/gradient_reduction.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

#include "base/error.h"
#include "comm/collectives.h"

namespace weft {
namespace {

// Independent running sums hide the latency of one addition; folding them per block keeps rounding
// errors small.
constexpr std::int64_t kLanes = 8;
constexpr std::int64_t kBlock = 4096;
static_assert(kBlock % kLanes == 0);

void check_flat(const at::Tensor& flat) {
  WEFT_CHECK(flat.dim() == 1 && flat.is_contiguous() && flat.device().is_cpu(),
             "gradients must be one contiguous dimension in host memory, got {} dimensions on {}",
             flat.dim(), flat.device().str());
  WEFT_CHECK(flat.scalar_type() == at::kFloat || flat.scalar_type() == at::kDouble,
             "gradients must be float32 or float64, got {}", dtype_name(flat.scalar_type()));
}

template <class T>
void reduce_buckets(Communicator& comm, std::span<T> values, Bytes bucket_bytes,
                    std::int64_t step) {
  const auto bucket = static_cast<std::size_t>(
      std::max<std::int64_t>(1, bucket_bytes.value() / static_cast<std::int64_t>(sizeof(T))));
  WEFT_CHECK(
      values.size() / bucket < static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()),
      "{} gradients in buckets of {} elements", values.size(), bucket);
  std::int32_t hop = 0;
  for (std::size_t begin = 0; begin < values.size(); begin += bucket) {
    const OpLabel label{.operation = "gradient all_reduce", .step = step, .hop = hop++};
    const std::size_t size = std::min(bucket, values.size() - begin);
    all_reduce<T>(comm, values.subspan(begin, size), ReduceOp::kSum, label);
  }
}

template <class T>
double sum_of_squares(std::span<const T> values) {
  double total = 0;
  for (std::size_t begin = 0; begin < values.size(); begin += kBlock) {
    const auto block = values.subspan(begin, std::min<std::size_t>(kBlock, values.size() - begin));
    std::array<double, kLanes> lanes{};
    std::size_t i = 0;
    for (; i + kLanes <= block.size(); i += kLanes) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        const double value = block[i + lane];
        lanes[lane] += value * value;
      }
    }
    for (; i < block.size(); ++i) {
      const double value = block[i];
      lanes[i % kLanes] += value * value;
    }
    for (const double lane : lanes) total += lane;
  }
  return total;
}

}  // namespace

void all_reduce_gradients(Communicator& comm, const at::Tensor& flat, Bytes bucket_bytes,
                          std::int64_t step) {
  check_flat(flat);
  WEFT_CHECK(bucket_bytes > Bytes(0), "bucket of {} bytes", bucket_bytes);
  const auto size = static_cast<std::size_t>(flat.numel());
  if (flat.scalar_type() == at::kFloat) {
    reduce_buckets<float>(comm, {flat.data_ptr<float>(), size}, bucket_bytes, step);
  } else {
    reduce_buckets<double>(comm, {flat.data_ptr<double>(), size}, bucket_bytes, step);
  }
}

double global_norm(const at::Tensor& flat) {
  check_flat(flat);
  const auto size = static_cast<std::size_t>(flat.numel());
  if (flat.scalar_type() == at::kFloat)
    return std::sqrt(sum_of_squares<float>({flat.data_ptr<float>(), size}));
  return std::sqrt(sum_of_squares<double>({flat.data_ptr<double>(), size}));
}

double clip_scale(double norm, double max_norm) {
  WEFT_CHECK(std::isfinite(norm) && norm >= 0, "clip by a norm of {}", norm);
  if (max_norm <= 0 || norm <= max_norm) return 1;
  return max_norm / norm;
}

}  // namespace weft
