// The steps of a program: what the planner (skinny/runtime/plan.py) makes of a graph.
//
// The threads of a team run a step together, each on a range of its work; the next step begins when
// all are done. Steps are immutable: one program serves any number of callers at once.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "conv_weights.h"
#include "jit/chain_code.h"
#include "made_once.h"
#include "linear_weights.h"
#include "pointwise.h"
#include "pool.h"
#include "view.h"

namespace skinny {

// The first of the caller's values that a thread found wrong: told by the run when it ends.
struct Mistake {
  std::atomic<bool> found{false};
  int32_t index = 0;
  size_t limit = 0;

  void tell(int32_t of, size_t allowed) {
    if (found.exchange(true)) return;
    index = of;
    limit = allowed;
  }
};

// What one thread of a team works with.
struct ThreadContext {
  float* arena;
  size_t n;            // images interleaved
  float* scratch;      // this thread's own
  size_t rank, size;   // of the team
  Mistake* mistake = nullptr;
  // The caller's memory, if a step reads its input or writes its output there, compact, and not in
  // the arena.
  const float* source = nullptr;
  float* target = nullptr;

  float* at(size_t position) const { return arena + position * n; }
  const float* read(const View& in, size_t position) const {
    return source ? source + (position - in.offset) : at(position);
  }
  float* write(const View& out, size_t position) const {
    return target ? target + (position - out.offset) : at(position);
  }
  // This thread's range of [0, count).
  Range partition(size_t count) const { return skinny::partition(count, rank, size); }
};

// What steps count their work in (Step::work), measured on a core with AVX2.
constexpr double ns_per_multiplication = 0.08;  // of a weight with an element, in a tile
constexpr double ns_per_float = 0.2;            // read, touched and written, in the second-level cache

class Step {
 public:
  virtual ~Step() = default;
  virtual void run(const ThreadContext& context) const = 0;
  virtual size_t scratch(size_t) const { return 0; }  // floats, for n interleaved images
  // About how many nanoseconds one thread takes for one image, which tells how many threads the
  // step is worth; a tensor program asks for it.
  virtual double work() const { return 0; }
  // Whether a value is its input, or its output, and may lie in the caller's memory: the step reads
  // and writes nothing beside it.
  virtual bool reads(const View& /*value*/) const { return false; }
  virtual bool writes(const View& /*value*/) const { return false; }
  // Makes code for the step, of at most `most` bytes, unless it was asked for before. Others may run
  // the step meanwhile, and until the writer has finished.
  virtual void generate(size_t /*n*/, size_t /*most*/, jit::CodeWriter& /*writer*/) const {}
  virtual size_t code_bytes() const { return 0; }
  // Whether what it made are pairs of weights (int8_pairs.h), which a kernel walks, and no code.
  virtual bool has_pairs() const { return false; }
  // About how many bytes of code `generate` makes, if these would run for a few vectors alone.
  virtual size_t code_of_few_vectors() const { return 0; }
};

// Makes code for steps that are run on n interleaved images; returns the bytes of each one's.
std::vector<size_t> generate_code(const std::vector<std::shared_ptr<const Step>>& steps, size_t n,
                                  size_t most);

// A step on images that is done for several samples, whose inputs and outputs lie at equal
// distances. The programs of an Engine interleave images instead, and have one sample.
struct Samples {
  size_t count = 1, in_stride = 0, out_stride = 0;
};

// What neighbouring tiles that run together may take in a second-level cache; how many there are at
// most of a chain whose tiles go through scratch buffers. The planner counts with these too.
constexpr size_t strip_floats = 131072, chain_strip_tiles = 4;

// Zeroes the padding around some rows of some channels of `view`; around those rows that are this
// thread's when a team divides them, or the channels, if each thread writes its own.
void zero_padding(const View& view, const ThreadContext& context, Range channels, Range rows);
void zero_padding(const View& view, const ThreadContext& context, bool by_channels = false);

struct Stage {
  std::shared_ptr<const ConvWeights> weights;
  TapOffsets offsets;
  std::vector<float> bias;
  Epilogue epilogue;
};

// The windows of a pooling layer. `windows` points into `columns`, so a Pool stays where it is.
struct Pool {
  struct Axis {
    std::vector<int32_t> begin, end;
    std::vector<float> scale;
    int32_t dilation = 1;
  };
  const bool max;
  const Axis rows, columns;
  Windows windows;  // of the columns
  size_t window_rows = 0;     // of the window that has most
  size_t address_floats = 0;  // that their addresses take in memory
  const PoolKernels& kernels = SKINNY_CHOOSE(pool);

  Pool(bool largest, Axis row_axis, Axis column_axis);
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Row y of a channel's output; row(i) is where row i of its input begins. `scratch` has
  // room for the addresses of a window's rows and for one row.
  template <class Row>
  void run(size_t y, const Row& row, size_t width, size_t n, float* scratch, float* to) const {
    auto covered = reinterpret_cast<const float**>(scratch);
    size_t count = 0;
    for (int64_t i = rows.begin[y]; i < rows.end[y]; i += rows.dilation)
      covered[count++] = row(static_cast<size_t>(i));
    kernels.row(max, covered, count, rows.scale[y], windows, width, n, scratch + address_floats,
                to);
  }
  size_t scratch(size_t width, size_t n) const { return address_floats + width * n; }
  bool by_channel() const;  // whether kernels.channel takes it, for one image
  Windows row_windows() const;
};

// A convolution and the 1x1 convolutions after it, tile by tile: a tile of the first goes through
// all of them before the next tile begins, so that only the last result leaves the cache. A pooling
// layer at the end is computed row by row, as soon as the rows under its windows are complete.
class Chain : public Step {
 public:
  View in, out;
  Samples samples;
  size_t height = 0, width = 0;  // of the convolutions' output; `out` is smaller if it is pooled
  std::shared_ptr<const Pool> pool;
  size_t first = 0;        // position in `in` of the first tile's first tap
  bool flat = false;       // one image whose rows are computed as one long row, padding included
  size_t tile_rows = 1, tile_columns = 1;  // a tile: rows x vectors
  bool split_channels = false;             // threads split output channels instead of tiles
  std::vector<Stage> stages;
  // Of a 1x1 convolution whose input is copied tile by tile, because its channels begin anywhere:
  // loads of vectors that cross cache lines take twice as long. Where its taps lie in the copy.
  std::optional<TapOffsets> copied_offsets;
  // Of a 1x1 convolution: each input channel is multiplied with a factor when its tiles are copied.
  struct Factors {
    size_t position, sample_stride;  // in the arena: one after the other, for each sample
  };
  std::optional<Factors> factors;
  // A value that is added to the last stage's result, and bounds that the sum is clamped to.
  struct Residual {
    View view;
    float low, high;
  };
  std::optional<Residual> residual;
  // Of an image with padding between its rows that is computed as one long row: where its rows lie.
  // What is computed for the padding between and after them is replaced by zeros.
  struct ImageRows {
    size_t count, width, stride;
  };
  std::optional<ImageRows> image_rows;

  void run(const ThreadContext& context) const override;
  size_t scratch(size_t n) const override;
  double work() const override;
  void generate(size_t n, size_t most, jit::CodeWriter& writer) const override;
  size_t code_bytes() const override;

 private:
  struct Grid;
  struct Ring;
  struct Strip;
  bool direct(const Grid& grid) const;
  bool joins_residual(const Grid& grid) const;
  size_t strip_tiles(const Grid& grid) const;
  void run_tiles(const Grid& grid, const ThreadContext& context, Range tiles,
                 const Ring* ring) const;
  void run_strip(const Grid& grid, const ThreadContext& context, const Strip& strip,
                 const Ring* ring) const;
  void run_stage(const Grid& grid, const ThreadContext& context, const Strip& strip,
                 const Ring* ring, size_t s, const jit::TileRun* runs, ptrdiff_t row_stride) const;
  size_t scratch_buffers() const { return stages.size() > 1 ? 2 : 1; }  // what one stage makes, each
  void run_pooled(const Grid& grid, const ThreadContext& context, Range rows) const;
  void store_tile(const Grid& grid, const ThreadContext& context, const Ring* ring,
                  const float* from, Range channels, size_t row, size_t column, size_t rows,
                  size_t floats) const;
  void add_residual(const Grid& grid, const ThreadContext& context, const float* from,
                    size_t stride, Range channels, size_t row, size_t column, size_t rows, size_t floats) const;
  void zero_between_rows(float* out, size_t stride, Range channels, size_t column,
                         size_t floats) const;
  template <class Segment>
  void each_segment(const Grid& grid, size_t row, size_t column, size_t rows, size_t floats,
                    const Segment& segment) const;
  void copy_tile(const Grid& grid, const float* from, float* to, size_t rows, size_t floats) const;
  size_t max_channels() const;
  size_t ring_rows() const;

  std::shared_ptr<MadeOnce<jit::ChainCode>> code_ =
      std::make_shared<MadeOnce<jit::ChainCode>>();
};

// y = W x + b for `vectors` vectors, at equal distances.
class Linear : public Step {
 public:
  size_t in = 0, out = 0;  // positions of the first
  size_t vectors = 1, in_stride = 0, out_stride = 0;
  std::shared_ptr<const LinearWeights> weights;
  std::vector<float> bias;
  Activation activation;

  void run(const ThreadContext& context) const override;
  size_t scratch(size_t n) const override;
  double work() const override;

 private:
  void run_vector(const ThreadContext& context, size_t index, Range outputs) const;
};

class Pooling : public Step {
 public:
  View in, out;
  Samples samples;
  std::shared_ptr<const Pool> pool;

  void run(const ThreadContext& context) const override;
  size_t scratch(size_t n) const override;
  double work() const override;
};

// out(channel * m + i, y, x) = in(channel, y * stride_y + row[i], x * stride_x + column[i]) for the
// m pairs (row[i], column[i]), zero outside of `in`. A strided convolution has stride one on the
// result; with strides of one this is a padded copy.
class SpaceToDepth : public Step {
 public:
  View in, out;
  Samples samples;
  int64_t stride_y = 1, stride_x = 1;
  std::vector<int64_t> row, column;

  void run(const ThreadContext& context) const override;
  bool reads(const View& value) const override { return in.same_compact(value); }
  double work() const override;

 private:
  void run_channel(const ThreadContext& context, size_t sample, size_t channel) const;
};

// The views of all steps below are compact.
class Activate : public Step {
 public:
  View in, out;
  Activation activation;
  void run(const ThreadContext& context) const override;
};

class Scale : public Step {
 public:
  View in, out;
  std::vector<float> scale, shift;  // one per channel
  Activation activation;
  void run(const ThreadContext& context) const override;
};

class Normalise : public Step {
 public:
  View in, out;
  Samples samples;
  int size = 1;
  float alpha = 0, beta = 0, k = 1;
  void run(const ThreadContext& context) const override;
  double work() const override;
};

// out[i][j][k][l] = left + right, a stride of zero where a side is broadcast.
class Add : public Step {
 public:
  View left, right, out;
  size_t shape[4] = {1, 1, 1, 1}, left_stride[4] = {}, right_stride[4] = {};
  void run(const ThreadContext& context) const override;
};

// Each input is [outer][its own size]; so is the output.
class Concat : public Step {
 public:
  std::vector<View> in;
  View out;
  size_t outer = 1;
  void run(const ThreadContext& context) const override;
};

class Softmax : public Step {
 public:
  View in, out;
  size_t outer = 1, axis = 1, inner = 1;
  bool log = false;
  void run(const ThreadContext& context) const override;
};

}  // namespace skinny
