// Checks of arguments.
#pragma once

#include <cstddef>
#include <stdexcept>

namespace skinny {

inline void require(bool holds, const char* otherwise) {
  if (!holds) throw std::invalid_argument(otherwise);
}

// a * b, of sizes that a caller chose freely.
inline size_t product(size_t a, size_t b) {
  size_t result;
  require(!__builtin_mul_overflow(a, b, &result), "a size is too large to be computed");
  return result;
}

}  // namespace skinny
