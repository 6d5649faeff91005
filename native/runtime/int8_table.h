// A table of rows in int8, each with its scale.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "require.h"

namespace skinny {

class Int8Table {
 public:
  Int8Table(std::vector<int8_t> integers, std::vector<float> scale)
      : integers_(std::move(integers)), scale_(std::move(scale)) {
    require(!integers_.empty() && !scale_.empty() && integers_.size() % scale_.size() == 0,
            "a table needs a scale for each row");
  }

  size_t rows() const { return scale_.size(); }
  size_t columns() const { return integers_.size() / rows(); }
  size_t bytes() const { return integers_.size() + sizeof(float) * scale_.size(); }
  const std::vector<int8_t>& integers() const { return integers_; }
  const int8_t* row(size_t i) const { return integers_.data() + i * columns(); }
  float scale(size_t i) const { return scale_[i]; }

 private:
  std::vector<int8_t> integers_;  // [rows][columns]
  std::vector<float> scale_;
};

}  // namespace skinny
