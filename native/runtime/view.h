// Where a value of the network lies while the network runs.
//
// Values hold `n` images interleaved (n is 1 or a multiple of the vector's lanes): position
// (channel, row, column) is n neighbouring floats. A View counts positions, not floats, so that one
// view serves any n.
#pragma once

#include <cstddef>
#include <cstdint>

namespace skinny {

// Offsets of taps are 32-bit, so an arena has at most this many floats.
constexpr size_t max_offset = (size_t{1} << 31) - 1;

struct View {
  size_t offset = 0;  // from the start of the arena
  size_t channels = 0, height = 0, width = 0;
  size_t channel_stride = 0;
  size_t row_stride = 0;
  size_t origin = 0;  // of row 0, column 0 within a channel; the padding around the rows is zero

  size_t at(size_t channel, size_t row = 0, size_t column = 0) const {
    return offset + channel * channel_stride + origin + row * row_stride + column;
  }
  View shifted(size_t positions) const {
    View other = *this;
    other.offset += positions;
    return other;
  }
  size_t size() const { return channels * height * width; }
  size_t end() const { return offset + channels * channel_stride; }
  bool compact() const {
    return origin == 0 && row_stride == width && channel_stride == height * width;
  }
  // Whether both are the same floats, without gaps; their shapes may differ.
  bool same_compact(const View& other) const {
    return compact() && other.compact() && offset == other.offset && size() == other.size();
  }
};

inline size_t divide_up(size_t count, size_t unit) { return (count + unit - 1) / unit; }
inline size_t round_up(size_t count, size_t unit) { return divide_up(count, unit) * unit; }

struct Range {
  size_t begin, end;
};

// [0, count) in `size` near-equal ranges: the range of thread `rank`.
inline Range partition(size_t count, size_t rank, size_t size) {
  return {count * rank / size, count * (rank + 1) / size};
}

}  // namespace skinny
