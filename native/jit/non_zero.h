#pragma once

#include <cstdint>

namespace skinny {

// A weight of a convolution's block: of which output channel, and for which tap.
struct NonZero {
  uint32_t row, tap;
  float value;
};

}  // namespace skinny
