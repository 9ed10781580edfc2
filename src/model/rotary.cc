#include "model/rotary.h"

#include <cmath>

namespace weft {
namespace {

// (a, b) -> (a cos - direction b sin, b cos + direction a sin), a and b being the halves of each
// head.
void turn(const at::Tensor& heads, const RotaryTable& table, double direction) {
  const std::int64_t half = heads.size(-1) / 2;
  at::Tensor a = heads.narrow(-1, 0, half);     // [T, N, D/2]
  at::Tensor b = heads.narrow(-1, half, half);  // [T, N, D/2]
  const at::Tensor old_a = a.clone();
  a.mul_(table.cos).addcmul_(b, table.sin, -direction);
  b.mul_(table.cos).addcmul_(old_a, table.sin, direction);
}

}  // namespace

RotaryTable make_rotary_table(const at::Tensor& positions, std::int64_t head_dim, double theta,
                              at::ScalarType dtype) {
  const std::int64_t half = head_dim / 2;
  at::Tensor frequencies = at::empty({half}, at::kDouble);  // [D/2], radians per position
  for (std::int64_t j = 0; j < half; ++j) {
    frequencies.data_ptr<double>()[j] =
        std::pow(theta, -2.0 * static_cast<double>(j) / static_cast<double>(head_dim));
  }
  const at::Tensor angles = at::mul(positions.to(at::kDouble).unsqueeze(1), frequencies);
  return {.cos = angles.cos().to(dtype).unsqueeze(1), .sin = angles.sin().to(dtype).unsqueeze(1)};
}

void rotate(const at::Tensor& heads, const RotaryTable& table) { turn(heads, table, 1); }

void rotate_back(const at::Tensor& heads, const RotaryTable& table) { turn(heads, table, -1); }

}  // namespace weft
