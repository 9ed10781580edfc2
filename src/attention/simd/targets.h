// The SIMD levels that attention is compiled for; include before any Highway header.
//
// SSSE3 adds little to SSE4, and vectors of a size known only at run time (SVE) cannot be held in
// arrays.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
