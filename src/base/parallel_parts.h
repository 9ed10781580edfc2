// Independent parts of one computation, on a few threads.
//
// Which thread runs a part is open, so a part writes only what is its own; the result is then the
// same for any number of threads, and so is the error: that of the first part that failed.
#pragma once

#include <cstddef>
#include <functional>

namespace weft {

// Runs body(part) for every part in [0, num_parts), on at most num_threads threads, of which the
// caller is one; returns when all are done. Every part runs, also after one has thrown.
// REQUIRES: num_threads >= 1.
void for_each_part(int num_threads, std::size_t num_parts,
                   const std::function<void(std::size_t part)>& body);

}  // namespace weft
