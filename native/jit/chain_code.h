// The generated code of a chain: of each of its layers, for each shape of its tiles.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "runtime/conv_weights.h"
#include "tile_code.h"

namespace skinny {
struct Stage;
}

namespace skinny::jit {

struct TileShape {
  size_t rows, vectors;
  size_t count;  // tiles of a run
};

class ChainCode {
 public:
  // What the sum of the last stage and the residual is clamped to.
  struct Bounds {
    float low, high;
  };

  // offsets, row_stride: where the first stage's taps and the rows of its tiles lie; 0: next to each
  // other. most: bytes that the code may take. residual: if code for AVX-512 is to add one.
  // join_channels: unless threads split the channels of a layer. strip_vectors: how many the code of
  // a layer is run for, one after the other. ahead: of what the first stage reads and the last one
  // writes.
  ChainCode(const std::vector<Stage>& stages, const TapOffsets& offsets, ptrdiff_t row_stride,
            const std::vector<TileShape>& shapes, size_t most,
            const std::optional<Bounds>& residual, bool join_channels, size_t strip_vectors,
            const Ahead& ahead, CodeWriter& writer);

  // Null where a layer is interpreted, or its code is not ready yet.
  const TileCode* find(size_t stage, size_t rows, size_t vectors) const;
  size_t bytes() const;
  // Whether some code is for tiles of certain shapes only.
  bool needs_shapes() const;

 private:
  struct Entry {
    size_t stage, rows, vectors;
    std::shared_ptr<const TileCode> code;
  };
  std::vector<Entry> entries_;
};

}  // namespace skinny::jit
