// A fully connected layer's weights in the form the kernels read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "linear.h"
#include "pages.h"
#include "strip_weights.h"

namespace skinny {

// Dense; or the non-zero values with a bitmask, or with delta-encoded column indices (linear.h); for
// one input vector in strips too, if they are few enough to stay in a cache.
class LinearWeights {
 public:
  // mask: flat bits over [rows][cols], low bit first; values: one for each one of the mask, kept
  // alive by `owner` and not copied, unless explicit zeros come between them.
  LinearWeights(const uint8_t* mask, const float* values, size_t count,
                std::shared_ptr<const void> owner, size_t rows, size_t cols);
  LinearWeights(const float* dense, size_t rows, size_t cols);

  // y[begin..end) of n interleaved images; x has readable_columns() * n readable floats.
  void run(size_t begin, size_t end, const float* x, size_t n, const float* bias,
           float* y) const;

  size_t rows() const { return rows_; }
  size_t cols() const { return cols_; }
  size_t readable_columns() const { return (cols_ + 63) / 64 * 64; }
  const char* form() const {
    return strips_ ? "strips" : !deltas_.empty() ? "deltas" : !mask_.empty() ? "bitmask" : "dense";
  }
  size_t bytes() const;
  // How long one input vector takes, in floats that are read from the second-level cache.
  double work() const;

 private:
  void keep_mask(const uint8_t* mask, const float* values, size_t count,
                 std::shared_ptr<const void> owner);
  void encode_deltas(const uint8_t* mask, const float* values, size_t count,
                     std::shared_ptr<const void> owner);

  size_t rows_, cols_;
  std::vector<uint64_t> mask_, first_;
  std::vector<uint8_t, InPages<uint8_t>> deltas_;
  std::vector<float, InPages<float>> values_;  // dense, or with deltas and explicit zeros
  const float* given_ = nullptr;               // else
  std::shared_ptr<const void> owner_;
  std::optional<StripWeights> strips_;
};

}  // namespace skinny
