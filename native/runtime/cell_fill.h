// Cells of the zero point, which lie around the rows of an image.
#pragma once

#include <cstring>

#include "view.h"

namespace skinny {

// `count` cells of the zero point.
inline void fill(float* to, size_t count, int32_t zero) {
  uint32_t cell = static_cast<uint32_t>(zero) * 0x01010101u;
  for (size_t i = 0; i < count; ++i) std::memcpy(to + i, &cell, sizeof cell);
}

// What lies around the rows of one channel.
inline void fill_around(float* channel, const View& v, int32_t zero) {
  if (v.compact()) return;
  float* at = channel;
  for (size_t y = 0; y < v.height; ++y) {
    float* row = channel + v.origin + y * v.row_stride;
    fill(at, static_cast<size_t>(row - at), zero);
    at = row + v.width;
  }
  fill(at, static_cast<size_t>(channel + v.channel_stride - at), zero);
}

}  // namespace skinny
