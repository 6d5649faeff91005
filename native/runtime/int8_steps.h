// Steps of layers in int8, on images of cells (int8.h) in the arena of a tensor program. A View of
// cells has a channel for each four channels of the network.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "int8_matrix.h"
#include "int8_pairs.h"
#include "int8_weights.h"
#include "jit/int8_code.h"
#include "made_once.h"
#include "steps.h"
#include "tensor.h"

namespace skinny {

// Where samples of cells lie, and how floats become such: scale and zero point.
struct CellImage {
  View view;
  size_t sample_stride = 0;
};
struct Quantization {
  float scale = 1;
  int32_t zero = 0;

  float inverse() const { return 1.f / scale; }
};

// Cells from floats [samples, channels, height, width], with the zero point around the rows.
class Quantize : public Step {
 public:
  Quantize(const Tensor& source, const CellImage& target, Quantization to);
  void run(const ThreadContext& context) const override;
  double work() const override;

 private:
  Tensor source_;
  CellImage target_;
  Quantization to_;
};

// Rows of bytes from the rows of floats [rows, columns].
class QuantizeRows : public Step {
 public:
  QuantizeRows(const Tensor& source, size_t target, size_t stride, Quantization to);
  void run(const ThreadContext& context) const override;
  double work() const override;

 private:
  Tensor source_;
  size_t target_, stride_;  // in cells
  Quantization to_;
};

// Floats [samples, channels, height, width] from cells.
class Dequantize : public Step {
 public:
  Dequantize(const CellImage& source, const Tensor& target, Quantization from);
  void run(const ThreadContext& context) const override;
  double work() const override;

 private:
  CellImage source_;
  Tensor target_;
  Quantization from_;
};

// out(channel * m + i, y, x) = in(channel, y * stride_y + row[i], x * stride_x + column[i]), and
// the zero point outside, as SpaceToDepth.
class MoveCells : public Step {
 public:
  CellImage source, target;
  size_t samples = 1;
  int64_t stride_y = 1, stride_x = 1;
  std::vector<int64_t> row, column;
  int32_t zero = 0;

  void run(const ThreadContext& context) const override;
  double work() const override;
};

// The largest byte of each window; rows and columns are windows of the source.
class PoolCells : public Step {
 public:
  CellImage source, target;
  size_t samples = 1;
  std::shared_ptr<const Pool> pool;
  int32_t zero = 0;  // around the target's rows

  void run(const ThreadContext& context) const override;
  size_t scratch(size_t n) const override;
  double work() const override;

 private:
  struct Even;
};

// A convolution on cells, with what follows it.
class ConvInt8 : public Step {
 public:
  struct Target {
    std::optional<CellImage> cells;  // or
    std::optional<Tensor> floats;    // [samples, channels, height, width], columns contiguous
    Quantization quantization;       // of cells
    float low, high;
  };
  struct Added {
    std::optional<CellImage> cells;
    std::optional<Tensor> floats;
    Quantization quantization;
  };
  // first: in the source, of the tap of output (0, 0) whose offset is 0. offsets: of each tap.
  ConvInt8(const CellImage& source, size_t samples, size_t height, size_t width, size_t first,
           std::vector<int32_t> offsets, std::shared_ptr<const Int8Weights> weights,
           const Target& target, const Added& added);
  void run(const ThreadContext& context) const override;
  size_t scratch(size_t n) const override;
  double work() const override;
  void generate(size_t n, size_t most, jit::CodeWriter& writer) const override;
  size_t code_bytes() const override;
  bool has_pairs() const override { return pairs_->get() != nullptr; }
  size_t code_of_few_vectors() const override;
  size_t last_read() const;  // the last cell that is read, of any lane

 private:
  void add_slots(size_t row_stride, size_t out_rows, size_t add_rows);
  size_t strips(const ThreadContext& context, const jit::Int8Code* code) const;
  size_t parts(const ThreadContext& context, size_t units, size_t blocks) const;
  const float* input(const ThreadContext& context, size_t sample) const;
  void run_block(const ThreadContext& context, size_t sample, size_t block, Range slots,
                 const jit::Int8Code* code) const;
  void run_to_end(const ThreadContext& context, size_t sample, size_t block, Range slots,
                  const jit::Int8Code& code, jit::Int8Strip& strip) const;
  void run_pairs(const ThreadContext& context, const Int8Pairs& pairs) const;
  void prefetch(const ThreadContext& context, size_t sample, size_t channel, size_t rows,
                Range slots) const;
  std::optional<jit::Int8Ending> ending() const;
  std::pair<float*, size_t> to(const ThreadContext& context, size_t sample, size_t channel) const;
  void finish(const ThreadContext& context, size_t sample, size_t first, size_t rows, Range slots,
              const int32_t* sums) const;

  CellImage source_;
  size_t samples_, height_, width_, first_;
  std::vector<int32_t> offsets_;
  std::shared_ptr<const Int8Weights> weights_;
  Target target_;
  Added added_;
  std::vector<int32_t> slots_;            // of each vector of an image: its place in the source
  int32_t gap_ = 0;                       // as in Int8Rows
  bool bounded_ = true;                   // as in Int8Output
  std::vector<uint32_t> first_pieces_{0};  // of each vector, and one more
  std::vector<Int8Piece> pieces_;
  std::shared_ptr<MadeOnce<jit::Int8Code>> code_ = std::make_shared<MadeOnce<jit::Int8Code>>();
  std::shared_ptr<const PairWindow> window_;  // where pairs are used
  std::shared_ptr<MadeOnce<Int8Pairs>> pairs_ = std::make_shared<MadeOnce<Int8Pairs>>();
};

// y = W x + b for rows of bytes.
class LinearInt8 : public Step {
 public:
  size_t source = 0, source_stride = 0;  // in cells
  Tensor target;                         // floats [rows, outputs]
  std::shared_ptr<const Int8Matrix> weights;
  float low = 0, high = 0;

  void run(const ThreadContext& context) const override;
  double work() const override;
};

}  // namespace skinny
