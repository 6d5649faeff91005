#include "choice.h"

#include <cstdlib>
#include <cstring>

namespace skinny::jit {
namespace {

// Fewer weights than this in an average row of a block are mostly loads and stores of sums: code
// gains nothing. It also bounds the size of code by the number of non-zeros.
constexpr size_t fewest_taps = 3, fewest_wide_taps = 2;
// Code is larger than weights and their indices: for fewer tiles, reading it takes too long, unless
// it loads vectors once that several taps have in common.
constexpr size_t fewest_tiles = 16, fewest_overlapping = 4, fewest_shared_tiles = 2;
// Where channels share much of what they read of the input.
constexpr double shared_density = 0.2;
// With fewer non-zeros than that a load for each weight takes longer than permuting four of one load.
constexpr double weights_by_four_density = 0.3;

// Code for one channel at a time is some 65 bytes for each non-zero, read again for each strip of
// tiles: it pays as long as the code of a program stays in a usual last-level cache, and what a
// tile reads in the first-level cache.
constexpr size_t cached_code = size_t{8} << 20, cached_input = 28 << 10;
constexpr size_t bytes_per_weight = 17, bytes_per_vector = 6;  // its permutation and address; an FMA

bool refused() {
  const char* wish = std::getenv("SKINNY_JIT");
  return wish && std::strcmp(wish, "0") == 0;
}

}  // namespace

std::optional<Form> choose(Isa set, const Layer& layer) {
  bool x86 = set == Isa::avx2 || set == Isa::avx512;
  if (!x86 || layer.dense || refused()) return std::nullopt;
  bool wide = set == Isa::avx512;
  size_t fewest = wide ? fewest_wide_taps : fewest_taps;
  if (layer.non_zeros < fewest * layer.outputs * layer.blocks) return std::nullopt;
  if (wide) return many_channels;
  double density = static_cast<double>(layer.non_zeros) /
                   (static_cast<double>(layer.outputs) * static_cast<double>(layer.taps));
  if (density >= shared_density) {
    Form form = six_channels(density < weights_by_four_density);
    if (layer.tile_vectors % form.vectors == 0)
      return layer.all_tiles < fewest_shared_tiles ? std::nullopt : std::optional(form);
  }
  size_t bytes = (bytes_per_weight + bytes_per_vector * layer.tile_rows * layer.tile_vectors) *
                 layer.non_zeros;
  if (layer.tiles < (layer.overlap ? fewest_overlapping : fewest_tiles) ||
      layer.code_before + bytes > cached_code || layer.input_bytes > cached_input)
    return std::nullopt;
  return one_channel(layer.tile_rows, layer.tile_vectors, layer.row_stride);
}

}  // namespace skinny::jit
