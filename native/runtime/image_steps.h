// Steps on images, checked: what both kinds of programs add. Every function throws
// std::invalid_argument for a step that would leave the arena.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "steps.h"

namespace skinny {

// The arena that a step is added for.
struct ImageArena {
  size_t positions;
  size_t n;  // images interleaved
  Samples samples;
};

// The kernel of a convolution: rows, columns. Padding is what lies before the first ones.
struct KernelShape {
  std::array<size_t, 2> kernel, stride, padding, dilation;
};
void check_kernel(const KernelShape& shape);

// The view, if it lies in an arena of `positions`.
const View& inside(size_t positions, const View& view);
// That the samples of a view that is written over lie in the arena.
void check_in_place(const ImageArena& arena, const View& view);
// That the samples of both views lie in the arena, and are not written over what is read.
void check_samples(const ImageArena& arena, const View& source, const View& target);
// That a step does not write what it reads.
void apart(const View& source, const View& target);

Chain make_chain(const ImageArena& arena, const View& source, const View& target, size_t height,
                 size_t width, size_t first, bool flat, size_t tile_rows, size_t tile_columns,
                 bool split_channels, const std::vector<Stage>& stages,
                 const std::shared_ptr<Pool>& pool,
                 std::optional<Chain::Factors> factors = std::nullopt,
                 const std::optional<Chain::Residual>& residual = std::nullopt,
                 const std::optional<Chain::ImageRows>& image_rows = std::nullopt);
Pooling make_pooling(const ImageArena& arena, const View& source, const View& target,
                     const std::shared_ptr<Pool>& pool);
SpaceToDepth make_space_to_depth(const ImageArena& arena, const View& source, const View& target,
                                 const std::array<int64_t, 2>& stride,
                                 const std::vector<int64_t>& rows,
                                 const std::vector<int64_t>& columns);

}  // namespace skinny
