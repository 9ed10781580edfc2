// A cost model for CPU ranks counted from a decoder's shape and fixed rates (named in the .cc
// file).
//
// Fixed, so that plans do not differ from run to run; a measured cost file replaces it.
#pragma once

#include <cstdint>

#include "cost/cost_model.h"

namespace weft {

// Sizes in elements; see ModelConfig.
struct DecoderShape {
  std::int64_t num_layers = 1;
  std::int64_t hidden_size = 1;
  std::int64_t query_size = 1;  // query heads * head_dim
  std::int64_t kv_size = 1;     // key/value heads * head_dim
  std::int64_t intermediate_size = 1;
  std::int64_t vocab_size = 1;
  std::int64_t element_bytes = 4;  // 4 fp32, 8 fp64
};

CostModel estimate_cpu_cost(const DecoderShape& shape);

}  // namespace weft
