#include "runtime/matmul.h"

#include "product.h"

namespace skinny::SKINNY_SET {
namespace {

// Rows of `b` whose part of a panel stays in the first-level cache: 16 or 32 kB.
constexpr size_t block_depth = product_vectors == 4 ? 128 : 256;
constexpr size_t scratch_floats = block_depth * panel_floats;

// Copies a block of a panel of `b` to [depth][panel_floats], scaled, zero after the last column.
void pack(const float* b, size_t b_row, size_t depth, size_t columns, float scale, float* to) {
  for (size_t k = 0; k < depth; ++k, b += b_row, to += panel_floats)
    for (size_t n = 0; n < panel_floats; n += V) {
      size_t left = columns > n ? columns - n : 0;
      store(to + n, (left >= V ? load(b + n) : left ? load_some(b + n, left) : Vec{}) * scale);
    }
}

// A block of a panel, for all rows: by way of a buffer where the panel's last columns are missing.
void multiply_block(const MatrixProduct& p, const float* b, size_t b_row, size_t first, size_t k,
                    size_t depth) {
  size_t columns = p.columns - first < panel_floats ? p.columns - first : panel_floats;
  Broadcast a{p.a + k * p.a_column, p.a_row, p.a_column};
  float* c = p.c + first;
  if (columns % V == 0) {
    product(a, b, b_row, p.rows, columns / V, depth, k > 0, c, p.c_row);
    return;
  }
  size_t vectors = columns / V + 1, whole = columns / V * V;
  alignas(64) float sums[product_rows * panel_floats];
  for (size_t m = 0; m < p.rows; m += product_rows) {
    size_t rows = p.rows - m < product_rows ? p.rows - m : product_rows;
    product({a.data + m * a.row, a.row, a.column}, b, b_row, rows, vectors, depth, false, sums,
            panel_floats);
    for (size_t i = 0; i < rows; ++i) {
      float* to = c + (m + i) * p.c_row;
      const float* from = sums + i * panel_floats;
      for (size_t n = 0; n < whole; n += V)
        store(to + n, k ? load(to + n) + load(from + n) : load(from + n));
      Vec last = load(from + whole);
      if (k) last += load_some(to + whole, columns - whole);
      store_some(to + whole, last, columns - whole);
    }
  }
}

void multiply(const MatrixProduct& p, float* scratch) {
  for (size_t first = 0; first < p.columns; first += panel_floats)
    for (size_t k = 0; k < p.depth; k += block_depth) {
      size_t depth = p.depth - k < block_depth ? p.depth - k : block_depth;
      const float* b = p.b + k * p.b_row + first;
      // A panel that is read only once or twice is not worth the copy.
      if (p.rows <= 2 * product_rows && p.columns - first >= panel_floats && p.scale == 1.f) {
        multiply_block(p, b, p.b_row, first, k, depth);
      } else {
        pack(b, p.b_row, depth, p.columns - first, p.scale, scratch);
        multiply_block(p, scratch, panel_floats, first, k, depth);
      }
    }
}

}  // namespace

const MatmulKernels matmul{panel_floats, scratch_floats, multiply};

}  // namespace skinny::SKINNY_SET
