// The core that a thread runs on.
#pragma once

namespace weft {

// Of the calling thread, at this moment; -1 where the system does not say.
int current_core();

// Keeps the calling thread, and those that it starts, on this core. Advice: where the core does not
// exist, or the system refuses, nothing changes. -1: nothing to do.
void stay_on_core(int core);

}  // namespace weft
