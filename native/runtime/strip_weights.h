// The non-zeros of a matrix in strips (strips.h).
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "strips.h"

namespace skinny {

class StripWeights {
 public:
  // mask: flat bits over [rows][cols], low bit first; values: one for each set bit.
  // None where strips would be slower than reading the weights as they are: without a kernel, for
  // more than a cache holds, or for mostly empty slots.
  static std::optional<StripWeights> make(const uint8_t* mask, const float* values,
                                          size_t rows, size_t cols);

  // The most that strips of that number of non-zeros take.
  static size_t most_bytes(size_t count);

  void run(size_t begin, size_t end, const float* x, const float* bias, float* y) const;
  size_t slots() const { return values_.size(); }
  size_t bytes() const;

 private:
  using Bits = std::array<uint32_t, strip_rows>;  // the mask of a strip's rows in a block

  StripWeights() = default;
  // first: the index of the first value of each row of the strip, of those it has.
  void append(const std::vector<StripBlock>& blocks, const std::vector<Bits>& bits,
              const float* values, const uint64_t* first);

  std::vector<SlotValues> values_;
  std::vector<SlotColumns> columns_;
  std::vector<StripBlock> blocks_;
  std::vector<uint32_t> first_block_{0}, first_slot_{0};
};

}  // namespace skinny
