// The steps of a program: what the planner (skinny/runtime/plan.py) makes of a graph.
//
// A step is shared by the members of a team, each doing its part; the team meets between steps.
// Steps hold no state of a run: one program serves any number of callers at once.
#pragma once

#include <memory>
#include <vector>

#include "pointwise.h"
#include "view.h"
#include "conv_weights.h"
#include "linear_weights.h"

namespace skinny {

// One member's place in a run.
struct Place {
  float* arena;
  size_t n;        // images interleaved
  float* scratch;  // this member's own
  size_t rank, size;

  float* at(size_t position) const { return arena + position * n; }
};

class Step {
 public:
  virtual ~Step() = default;
  virtual void run(const Place& place) const = 0;
  virtual size_t scratch(size_t) const { return 0; }  // floats, for n interleaved images
};

// Sets to zero what lies around the rows of `view`, for channels [begin, end).
void clear_margins(const View& view, const Place& place, size_t begin, size_t end);

struct Stage {
  std::shared_ptr<const ConvWeights> weights;
  std::vector<float> bias;
  float low, high;                      // clamping, done in registers
  Activation activation;                // any other, done on the scratch buffer
  float a, b;
};

// The windows of a pooling layer.
struct Pool {
  bool max = true;
  struct Axis {
    std::vector<int32_t> begin, end;
    std::vector<float> scale;
    int32_t step = 1;
  } rows, columns;
  Windows windows{};  // of the columns

  // Finds the regular windows; the axes must stay where they are from then on.
  void prepare();
  // Row y of a channel's output; row(i) is where row i of its input begins.
  template <class Row>
  void run(size_t y, const Row& row, size_t width, size_t n, float* column, float* to) const {
    const float* seen[most_rows];
    size_t count = 0;
    for (int32_t i = rows.begin[y]; i < rows.end[y]; i += rows.step)
      seen[count++] = row(static_cast<size_t>(i));
    SKINNY_CHOOSE(pointwise).pool(max, seen, count, rows.scale[y], windows, width, n, column, to);
  }
  static constexpr size_t most_rows = 4096;  // of a window
};

// A convolution and the 1x1 convolutions after it, tile by tile: a tile of the first goes through
// all of them before the next one begins, so that only the last result leaves the cache. A pooling
// layer at the end is done row by row, as soon as the rows it needs are there.
class Chain : public Step {
 public:
  View in, out;
  size_t height = 0, width = 0;  // of what is computed; `out` is smaller if it is pooled
  std::shared_ptr<const Pool> pool;
  size_t first = 0;        // position in `in` of the first tile's first tap
  bool flat = false;       // one image: rows run on into each other, `pitch` apart
  size_t tile_rows = 1, tile_columns = 1;  // a tile: rows x vectors
  bool share_channels = false;             // the team shares output channels instead of tiles
  std::vector<Stage> stages;

  void run(const Place& place) const override;
  size_t scratch(size_t n) const override;

 private:
  struct Grid;
  struct Ring;
  void run_tile(const Grid& grid, const Place& place, size_t row, size_t tile_across,
                const Ring* ring) const;
  void run_pooled(const Grid& grid, const Place& place) const;
  void leave(const Grid& grid, const Place& place, const Ring* ring, const float* from,
             size_t begin, size_t end, size_t row, size_t column, size_t rows,
             size_t floats) const;
  size_t widest() const;
  size_t ring_rows() const;
};

class Linear : public Step {
 public:
  View in, out;
  std::shared_ptr<const LinearWeights> weights;
  std::vector<float> bias;
  Activation activation = Activation::none;
  float a = 0, b = 0;

  void run(const Place& place) const override;
  size_t scratch(size_t n) const override;
};

class Pooling : public Step {
 public:
  View in, out;
  std::shared_ptr<const Pool> pool;

  void run(const Place& place) const override;
  size_t scratch(size_t n) const override;
};

// out(channel * phases + p, y, x) = in(channel, y * stride + row[p], x * stride + column[p]), zero
// outside of `in`: a padded copy, or the phases of a strided convolution.
class Sample : public Step {
 public:
  View in, out;
  int64_t stride_y = 1, stride_x = 1;
  std::vector<int64_t> row, column;

  void run(const Place& place) const override;
};

// The rest works on compact values.
class Activate : public Step {
 public:
  View in, out;
  Activation activation = Activation::none;
  float a = 0, b = 0;
  void run(const Place& place) const override;
};

class Scale : public Step {
 public:
  View in, out;
  std::vector<float> scale, shift;  // one per channel
  void run(const Place& place) const override;
};

class Normalise : public Step {
 public:
  View in, out;
  int size = 1;
  float alpha = 0, beta = 0, k = 1;
  void run(const Place& place) const override;
};

// out[i][j][k][l] = left + right, a stride of zero where a side is broadcast.
class Add : public Step {
 public:
  View left, right, out;
  size_t shape[4] = {1, 1, 1, 1}, left_stride[4] = {}, right_stride[4] = {};
  void run(const Place& place) const override;
};

class Concat : public Step {
 public:
  std::vector<View> in;
  View out;
  size_t outer = 1;
  void run(const Place& place) const override;
};

class Softmax : public Step {
 public:
  View in, out;
  size_t outer = 1, axis = 1, inner = 1;
  bool log = false;
  void run(const Place& place) const override;
};

}  // namespace skinny
