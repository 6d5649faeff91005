#include "choice.h"

#include <cstdlib>
#include <cstring>

namespace skinny::jit {
namespace {

// Fewer weights than this in an average row of a block are mostly loads and stores of sums: code
// gains nothing. It also bounds the size of code by the number of non-zeros.
constexpr size_t fewest_taps = 4, fewest_wide_taps = 2;
// Code is larger than weights and their indices: for fewer tiles, reading it takes too long.
constexpr size_t fewest_tiles = 4;
// Where channels share what they read of the input more often than not.
constexpr double shared_density = 0.3;

// Code for one channel at a time is some 60 bytes for each non-zero, and each tile of a chain goes
// through the code of all layers: it pays where that fits the second-level cache, and what a tile
// reads fits the first.
constexpr size_t cached_code = size_t{1} << 19, cached_input = 28 << 10;
constexpr size_t bytes_per_weight = 13, bytes_per_vector = 6;  // broadcast and address; FMA

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
  if (layer.tiles < fewest_tiles) return std::nullopt;
  double density = static_cast<double>(layer.non_zeros) /
                   (static_cast<double>(layer.outputs) * static_cast<double>(layer.taps));
  if (density >= shared_density && layer.tile_vectors % six_channels.vectors == 0)
    return six_channels;
  size_t per_non_zero = bytes_per_weight + bytes_per_vector * layer.tile_rows * layer.tile_vectors;
  if (layer.chain_non_zeros > cached_code / per_non_zero || layer.input_bytes > cached_input)
    return std::nullopt;
  return one_channel(layer.tile_rows, layer.tile_vectors);
}

}  // namespace skinny::jit
