// Where a value of the network lies while it runs.
//
// Values hold `n` images interleaved (n is 1 or a multiple of the vector's lanes): position
// (channel, row, column) is n neighbouring floats. All numbers here count positions, so that one
// view serves any n.
#pragma once

#include <cstddef>
#include <cstdint>

namespace skinny {

struct View {
  size_t offset = 0;  // from the start of the arena
  size_t channels = 0, height = 0, width = 0;
  size_t plane = 0;   // from one channel to the next
  size_t pitch = 0;   // from one row to the next
  size_t origin = 0;  // of row 0, column 0 within a plane; what lies around the rows is zero

  size_t at(size_t channel, size_t row = 0, size_t column = 0) const {
    return offset + channel * plane + origin + row * pitch + column;
  }
  size_t size() const { return channels * height * width; }
  size_t end() const { return offset + channels * plane; }
  bool compact() const { return origin == 0 && pitch == width && plane == height * width; }
};

// The whole of [0, count) in `size` near-equal parts: where part `rank` begins.
inline size_t share(size_t count, size_t rank, size_t size) { return count * rank / size; }

}  // namespace skinny
