// weft simulate --paper: what ByteScale published beside what Weft predicts, as a table or JSON.
#pragma once

#include <cstdint>

namespace weft {

// Takes a few minutes; progress goes to stderr.
void run_paper(std::int64_t num_steps, bool is_json);

}  // namespace weft
