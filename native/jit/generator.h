// Turns the mask of a convolution into code.
//
// The code computes sums of some output channels for a *patch* of a tile: rows x vectors positions
// that are accumulated in registers, for several channels at a time where that pays:
//
//   sum = bias, or the partial sum in `out`
//   for each tap that one of the channels has a weight for:   # unrolled: these are instructions
//     sum[channel] += weight * patch of the input at the tap
//     out = sum, clamped in the last block of taps, of channels that have no further weights
//
// Where channels are computed together, this is the body of a loop over neighbouring patches: the
// processor fetches and decodes the instructions of some channels once for all these patches.
//
// Weights are no part of the code: they come in a stream of floats, in the order in which the code
// reads them, together with biases and bounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "non_zero.h"
#include "x86.h"

namespace skinny::jit {

// What is in registers at a time.
struct Form {
  Width width;
  size_t channels;  // output channels, at most
  size_t rows, vectors;  // the patch; rows is 1 unless channels is
  bool by_four = false;    // whether weights are loaded four at a time and then permuted; AVX2
  int64_t row_stride = 0;  // of what a patch of several rows reads, in floats

  size_t lanes() const { return width == Width::bits512 ? 16 : 8; }
};

// 1 x 8 vectors, or whatever a tile has, of one channel: a weight is loaded once for all these vectors,
// and the input comes from memory. The form for few non-zeros with AVX2.
constexpr Form one_channel(size_t rows, size_t vectors, int64_t row_stride) {
  return {Width::bits256, 1, rows, vectors, true, row_stride};
}
// Channels share what they read of the input. AVX2, for many non-zeros.
constexpr Form six_channels(bool by_four) { return {Width::bits256, 6, 1, 2, by_four}; }
// The same with AVX-512, where an FMA reads its weight by itself, for all lanes.
constexpr Form many_channels{Width::bits512, 31, 1, 1};

// In floats: so that displacements fit 32 bits, with those of the vectors of a patch and of what it
// prefetches, in bytes.
constexpr int32_t max_tap_offset = (int32_t{1} << 29) - 4096, max_ahead = 1 << 13;

// What patches prefetch of values that are larger than a second-level cache, with AVX-512.
struct Ahead {
  int32_t in = 0;    // bytes from what a patch reads to what it prefetches; 0: nothing
  bool out = false;  // what the next patch writes, and what it reads of the residual
};

// A block of a convolution's weights for a range of its output channels.
struct Block {
  std::vector<NonZero> weights;  // by row, then by tap
  size_t rows;                   // output channels
  const std::vector<int32_t>* offsets;  // of each tap, in floats from the patch's first
  const float* bias;                    // one per row; null: sums begin at those in `out`
  bool last;                            // whether sums are complete: then clamped to [low, high]
  float low, high;
  bool residual = false;  // of complete sums: whether what lies at the residual is added before
  // If not 0: for how many patches a function is run before the next one is, which it prefetches
  // meanwhile.
  size_t patches = 0;
  Ahead ahead = {};
};

// The code of some rows of a block, a function with these arguments. Strides are in bytes. The fifth
// is the row stride of `in` where the form has one channel, else the number of patches; then comes the
// residual, in bytes from `out`, with channels as far apart, and, where functions are prefetched, what
// the first patch prefetches of the next one's code and stream.
using Function = void (*)(const float* in, float* out, size_t out_stride, const float* stream,
                          ptrdiff_t row_stride_or_patches, ptrdiff_t residual,
                          const uint8_t* next_code, const float* next_stream);
struct Chunk {
  size_t code, bytes;  // where the function begins, and its size
  size_t stream;  // where its stream begins, in floats
  size_t row;     // the first of its rows, which `out` points at
  // Cache lines of the next function that each patch prefetches.
  size_t code_lines = 0, stream_lines = 0;
};

class Generator {
 public:
  explicit Generator(const Form& form) : form_(form), code_(form.width) {}

  // Appends the functions that together compute a block. Throws std::invalid_argument for
  // weights of other rows or taps, and for offsets that are too large.
  std::vector<Chunk> add(const Block& block);

  const std::vector<uint8_t>& code() const { return code_.bytes(); }
  const std::vector<float>& stream() const { return stream_; }

 private:
  // The weights of a tap, by_tap_[begin, end), and how many channels are complete before them.
  struct TapWeights {
    size_t begin, end, complete;
  };
  void add_single(const Block& block, std::vector<Chunk>& chunks);
  void add_grouped(const Block& block, std::vector<Chunk>& chunks);
  Chunk open(size_t row);
  void close(Chunk& chunk);
  void begin_sum(const Block& block, size_t row, size_t channel, Reg from);
  void store_sum(size_t channel, Reg to);
  std::optional<size_t> position(const Block& block, const NonZero& a, const NonZero& b, size_t row,
                                 size_t vector) const;
  bool overlap(const Block& block, const NonZero& a, const NonZero& b) const;
  void add_alone(const Block& block, Chunk& chunk, const NonZero* begin, const NonZero* end);
  void add_together(const Block& block, const Chunk& chunk, size_t rows, const NonZero* begin,
                    const NonZero* end);
  void order_by_tap(const Block& block, const Chunk& chunk, size_t rows, const NonZero* begin,
                    const NonZero* end);
  void add_tap(const Block& block, const Chunk& chunk, const TapWeights& own);
  void prefetch_next(const Chunk& chunk, size_t done);
  void finish_sums(const Block& block, const Chunk& chunk, size_t first, size_t end);
  void clamp(size_t first, size_t count, float low, float high);
  Address next(float value);
  Address next_four(size_t index);
  Address patch(size_t row, size_t vector) const;
  int32_t displacement(const Block& block, size_t tap, int32_t beyond) const;
  int32_t vector_bytes() const { return static_cast<int32_t>(4 * form_.lanes()); }
  // Code for one channel and more than five rows has no register left for that.
  bool prefetches(const Block& block) const { return block.patches && form_.rows <= 5; }
  int32_t patch_bias() const;
  int32_t out_bias() const;
  Vector sum(size_t channel, size_t i) const {
    return {static_cast<uint8_t>(channel * form_.rows * form_.vectors + i)};
  }

  const Form form_;
  Assembler code_;
  std::vector<float> stream_;
  size_t chunk_stream_ = 0;  // where the open chunk's stream begins
  int32_t stream_base_ = 0;  // where its pointer to the stream is, in bytes
  std::vector<NonZero> by_tap_, sorted_;
  std::vector<size_t> ends_;  // in sorted_, of each tap's weights
  std::vector<bool> read_;    // taps
  std::vector<TapWeights> taps_;  // of grouped channels, in the order in which code reads them
  std::vector<bool> begun_;       // the sums of a function's channels
};

}  // namespace skinny::jit
