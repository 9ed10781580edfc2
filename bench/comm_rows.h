// Exchange and reductions between the ranks of one world, whatever transport carries them.
#pragma once

#include "bench/harness/suite.h"
#include "comm/communicator.h"

namespace weft::bench {

// Called on every rank of a world of two or more; the selected rows are printed by rank 0. Ranks
// above 1 take part in reductions only.
void run_comm_rows(Communicator& comm, const Selection& selection);

std::vector<std::string> comm_row_names(std::string_view transport);

}  // namespace weft::bench
