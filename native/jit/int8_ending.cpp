#include "int8_ending.h"

#include <algorithm>

namespace skinny::jit {
namespace {

constexpr Vector low{27}, zero{27}, high{28}, cell{29}, inverse{30};  // low: of floats

constexpr int32_t at(size_t offset, size_t row = 0) {
  return static_cast<int32_t>(offset + sizeof(float) * row);
}

Vector sum(size_t row) { return {static_cast<uint8_t>(row)}; }

}  // namespace

Int8Constants::Int8Constants(const Int8Ending& ending, const Int8Weights& weights, size_t block)
    : inverse(ending.inverse),
      low(ending.low),
      high(ending.cells ? static_cast<float>(255 - ending.zero) : ending.high) {
  size_t first = block * int8_block, rows = weights.blocks()[block].start.size();
  std::copy_n(weights.scale() + first, rows, scale);
  std::copy_n(weights.bias() + first, rows, bias);
  std::fill_n(zero, 2, static_cast<int16_t>(ending.zero));
  for (size_t i = 0; i < 64; ++i) cell[i] = static_cast<uint8_t>(i % 4 * 4 + i / 4 % 4);
}

void Int8EndingCode::load_constants() {
  if (!ending_.cells || !simple())
    code_.vbroadcastss(high, {constants_, at(offsetof(Int8Constants, high))});
  if (!ending_.cells)
    return code_.vbroadcastss(low, {constants_, at(offsetof(Int8Constants, low))});
  code_.vbroadcastss(inverse, {constants_, at(offsetof(Int8Constants, inverse))});
  code_.vmovups(cell, {constants_, at(offsetof(Int8Constants, cell))});
  if (!simple()) code_.vbroadcastss(zero, {constants_, at(offsetof(Int8Constants, zero))});
}

void Int8EndingCode::scale(size_t row) {
  Vector y = sum(row);
  code_.vcvtdq2ps(y, y);
  code_.vmulps_broadcast(y, y, {constants_, at(offsetof(Int8Constants, scale), row)});
  code_.vaddps_broadcast(y, y, {constants_, at(offsetof(Int8Constants, bias), row)});
}

void Int8EndingCode::store(size_t first) {
  size_t end = first + ending_.rows_at_once();
  for (size_t row = first; row < end; ++row) {
    Vector y = sum(row);
    scale(row);
    if (!ending_.cells) {
      code_.vmaxps(y, low, y);  // NaN stays
      code_.vminps(y, high, y);
      continue;
    }
    code_.vmulps(y, y, inverse);
    if (!simple()) code_.vminps(y, high, y);
    code_.vcvtps2dq(y, y);
  }
  if (ending_.cells) {
    for (size_t row = first; row < end; row += 2) {
      code_.vpackssdw(sum(row), sum(row), sum(row + 1));
      if (!simple()) code_.vpaddsw(sum(row), sum(row), zero);
    }
    code_.vpackuswb(sum(first), sum(first), sum(first + 2));
    code_.vpshufb(sum(first), sum(first), cell);
  }
  code_.vmovups(Address{to_}, sum(first));
  code_.add(to_, stride_);
}

}  // namespace skinny::jit
