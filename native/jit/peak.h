#pragma once

namespace skinny::jit {

// GFLOP/s of one core that does nothing but FMAs, measured in a few milliseconds; 0 where that
// cannot be measured: with other instructions than AVX2's and AVX-512's, and without executable memory.
double fma_peak();

}  // namespace skinny::jit
