// Generated code for the tiles of one layer, in place of ConvWeights::run.
#pragma once

#include <memory>
#include <vector>

#include "executable.h"
#include "generator.h"
#include "runtime/conv_weights.h"

namespace skinny::jit {

// Of a block of the code for AVX-512, at most: few enough that what a vector's sums read stays in the
// first-level cache while the code goes over neighbouring vectors, and their instructions too.
constexpr size_t joined_taps = 512;

// Where a tile reads and writes; the stride is that of the output's channels.
struct TileRun {
  const float* in;
  float* out;
  size_t stride, vectors;
  const float* residual = nullptr;  // where code adds one, with the stride of `out`
};

class TileCode {
 public:
  // Null if the code would take more than `most` bytes, or the system refuses memory. It may be run
  // when it is ready.
  // join_channels: whether neighbouring ranges of the weights' channels are one of the code's.
  // patches, ahead: as of a Block.
  static std::unique_ptr<const TileCode> make(const ConvWeights& weights, const TapOffsets& offsets,
                                              const std::vector<float>& bias, float low, float high,
                                              const Form& form, size_t most, CodeWriter& writer,
                                              bool residual = false,
                                              bool join_channels = false, size_t patches = 0,
                                              const Ahead& ahead = {});

  size_t range_count() const { return ranges_.size(); }
  Range channels(size_t index) const { return ranges_[index].channels; }
  // As ConvWeights::run, for `count` tiles of `rows` rows. Where the form has one channel, the tiles
  // have its rows and vectors; else their vectors are a multiple of the form's.
  void run(size_t index, const TapOffsets& offsets, const TileRun* tiles, size_t count, size_t rows,
           ptrdiff_t row_stride) const;

  // Whether the residual of a tile is added, before sums are clamped.
  bool adds_residual() const { return residual_; }
  // Whether a tile may have any number of vectors.
  bool runs_any_shape() const { return form_.channels > 1 && form_.vectors == 1; }
  bool ready() const { return code_.ready(); }
  size_t bytes() const {
    return code_.bytes() ? code_.bytes() + stream_.size() * sizeof(float) : 0;
  }

 private:
  struct BlockChunk {
    ptrdiff_t offset;  // of its taps
    Chunk chunk;
  };
  struct ChannelRange {
    Range channels;
    size_t group;
    std::vector<BlockChunk> chunks;
  };
  TileCode(const Form& form, Executable code, std::vector<float> stream,
           std::vector<ChannelRange> ranges, bool residual)
      : form_(form),
        code_(std::move(code)),
        stream_(std::move(stream)),
        ranges_(std::move(ranges)),
        residual_(residual) {}

  Function function(const Chunk& chunk) const;

  const Form form_;
  const Executable code_;
  const std::vector<float> stream_;
  const std::vector<ChannelRange> ranges_;
  const bool residual_;
};

}  // namespace skinny::jit
