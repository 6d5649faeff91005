#include "chain_code.h"

#include <algorithm>

#include "choice.h"
#include "runtime/steps.h"

namespace skinny::jit {

namespace {

// Code that is run for more vectors than this is prefetched well enough between its calls.
constexpr size_t few_vectors = 16;
// Of layers with fewer output channels, joined ranges have as many groups; measured, they are slower.
constexpr size_t joined_outputs = 64;

// What a tile of rows x floats reads in a block: taps overlap.
size_t input_bytes(const TapOffsets& offsets, ptrdiff_t row_stride, size_t rows, size_t floats) {
  std::vector<ptrdiff_t> begins;
  for (int32_t offset : offsets.table)
    for (size_t row = 0; row < rows; ++row)
      begins.push_back(offset + static_cast<ptrdiff_t>(row) * row_stride);
  std::sort(begins.begin(), begins.end());
  auto whole = static_cast<ptrdiff_t>(floats);
  ptrdiff_t total = whole;
  for (size_t i = 1; i < begins.size(); ++i) total += std::min(begins[i] - begins[i - 1], whole);
  return static_cast<size_t>(total) * sizeof(float);
}

// Whether tiles of some taps have most of their vectors in common (Generator::overlap): those a row
// apart, or a vector.
bool overlap(const TapOffsets& offsets, ptrdiff_t row_stride, const TileShape& shape, size_t lanes) {
  if (shape.rows > 1 && row_stride < static_cast<ptrdiff_t>(shape.vectors * lanes)) return false;
  std::vector<int32_t> sorted(offsets.table.begin(), offsets.table.end());
  std::sort(sorted.begin(), sorted.end());
  auto found = [&](ptrdiff_t apart) {
    return std::any_of(sorted.begin(), sorted.end(), [&](int32_t offset) {
      return std::binary_search(sorted.begin(), sorted.end(), offset + apart);
    });
  };
  return (shape.rows > 1 && found(row_stride)) ||
         (shape.vectors > 1 && found(static_cast<ptrdiff_t>(lanes)));
}

}  // namespace

ChainCode::ChainCode(const std::vector<Stage>& stages, const TapOffsets& offsets,
                     ptrdiff_t row_stride, const std::vector<TileShape>& shapes, size_t most,
                     const std::optional<Bounds>& residual, bool join_channels, size_t strip_vectors,
                     const Ahead& ahead, CodeWriter& writer) {
  auto lanes = static_cast<size_t>(SKINNY_CHOOSE(tile).lanes);
  size_t taken = 0, tiles = 0;
  for (const TileShape& shape : shapes) tiles += shape.count;
  for (size_t s = 0; s < stages.size(); ++s) {
    const Stage& stage = stages[s];
    const ConvWeights& weights = *stage.weights;
    const TapOffsets& taps = s == 0 ? offsets : stage.offsets;
    std::shared_ptr<const TileCode> any_shape;
    for (const TileShape& shape : shapes) {
      size_t floats = shape.vectors * lanes;
      ptrdiff_t stride = s == 0 && row_stride ? row_stride : static_cast<ptrdiff_t>(floats);
      std::optional<Form> form = choose(
          isa(), {weights.dense(), weights.outputs(), weights.taps(), weights.block_count(),
                  weights.values(), shape.rows, shape.vectors, stride, shape.count, tiles,
                  input_bytes(taps, stride, shape.rows, floats),
                  overlap(taps, stride, shape, lanes), writer.bytes()});
      if (!form) continue;
      std::shared_ptr<const TileCode> code = form->channels > 1 ? any_shape : nullptr;
      if (!code) {
        bool wide = form->width == Width::bits512;
        bool adds = residual && s + 1 == stages.size() && wide;
        Ahead own;
        if (wide && s == 0) own.in = ahead.in;
        if (wide && s + 1 == stages.size()) own.out = ahead.out;
        // For how many patches code is run that prefetches what comes next.
        size_t patches = 0;
        if (wide && strip_vectors <= few_vectors) patches = strip_vectors;
        if (form->channels == 1)
          patches = std::max<size_t>(1, strip_vectors / (shape.rows * shape.vectors));
        Bounds bounds = adds ? *residual : Bounds{stage.epilogue.low, stage.epilogue.high};
        code = TileCode::make(weights, taps, stage.bias, bounds.low, bounds.high, *form,
                              most - taken, writer, adds,
                              join_channels && weights.outputs() >= joined_outputs,
                              patches, own);
        if (!code) continue;
        taken += std::min(code->bytes(), most - taken);
        if (form->channels > 1) any_shape = code;
      }
      entries_.push_back({s, shape.rows, shape.vectors, std::move(code)});
    }
  }
}

const TileCode* ChainCode::find(size_t stage, size_t rows, size_t vectors) const {
  for (const Entry& entry : entries_)
    if (entry.stage == stage && entry.code->ready() &&
        (entry.code->runs_any_shape() || (entry.rows == rows && entry.vectors == vectors)))
      return entry.code.get();
  return nullptr;
}

bool ChainCode::needs_shapes() const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const Entry& entry) { return !entry.code->runs_any_shape(); });
}

size_t ChainCode::bytes() const {
  size_t total = 0;
  for (size_t i = 0; i < entries_.size(); ++i) {
    auto same = [&](const Entry& other) { return other.code == entries_[i].code; };
    auto begin = entries_.begin();
    if (std::none_of(begin, begin + static_cast<ptrdiff_t>(i), same))
      total += entries_[i].code->bytes();
  }
  return total;
}

}  // namespace skinny::jit
