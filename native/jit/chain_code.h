// The generated code of a chain: of each of its layers, for each shape of its tiles.
#pragma once

#include <atomic>
#include <memory>
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
  // offsets, row_stride: where the first stage's taps and the rows of its tiles lie. most: bytes that
  // the code may take.
  ChainCode(const std::vector<Stage>& stages, const TapOffsets& offsets, ptrdiff_t row_stride,
            const std::vector<TileShape>& shapes, size_t most);

  // Null where a layer is interpreted.
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

// Code that is made once, while others may be running the chain: they interpret until it is there.
// Nobody waits, so that a forked child never waits for a thread that it does not have.
class CodeSlot {
 public:
  CodeSlot() = default;
  ~CodeSlot() { delete get(); }
  CodeSlot(const CodeSlot&) = delete;
  CodeSlot& operator=(const CodeSlot&) = delete;

  const ChainCode* get() const { return code_.load(std::memory_order_acquire); }
  bool begin() { return !begun_.exchange(true); }  // false if someone else has begun
  void set(std::unique_ptr<const ChainCode> code) {
    code_.store(code.release(), std::memory_order_release);
  }

 private:
  std::atomic<bool> begun_{false};
  std::atomic<const ChainCode*> code_{nullptr};
};

}  // namespace skinny::jit
