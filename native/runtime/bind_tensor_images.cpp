// Convolutions, pooling and linear layers in a tensor program. A View is one sample; the others
// follow at equal distances.
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include "bind_tensors.h"
#include "depthwise_step.h"
#include "direct_conv_step.h"
#include "image_steps.h"

namespace nb = nanobind;

namespace skinny {
namespace {

ImageArena arena(const TensorProgram& p, size_t samples, size_t source_stride,
                 size_t target_stride) {
  return {p.cells(), 1, {samples, source_stride, target_stride}};
}

// One factor for each input channel of each sample, apart from what the step writes.
std::optional<Chain::Factors> checked_factors(const TensorProgram& p,
                                              const std::optional<Tensor>& factors,
                                              const ImageArena& arena, const View& source,
                                              const View& target) {
  if (!factors) return std::nullopt;
  Tensor from = p.source(*factors);
  require(from.storage == 0 && from.rank == 2 && from.shape[0] == arena.samples.count &&
              from.shape[1] == source.channels && (from.strides[1] == 1 || from.shape[1] == 1),
          "a convolution's factors are one row in the arena for each sample, of one number for each "
          "input channel");
  size_t end = target.end() + (arena.samples.count - 1) * arena.samples.out_stride;
  require(from.offset + from.extent() < target.offset || end <= from.offset,
          "a step must not write what it reads");
  return Chain::Factors{from.offset, from.strides[0]};
}

void add_conv(TensorProgram& p, size_t samples, size_t source_sample_stride,
              size_t target_sample_stride, const View& source, const View& target, size_t height,
              size_t width, size_t first, bool flat, size_t tile_rows, size_t tile_columns,
              bool split_channels, const std::vector<Stage>& stages,
              const std::optional<Tensor>& factors) {
  ImageArena own = arena(p, samples, source_sample_stride, target_sample_stride);
  check_samples(own, source, target);
  p.add(make_chain(own, source, target, height, width, first, flat, tile_rows, tile_columns,
                   split_channels, stages, nullptr,
                   checked_factors(p, factors, own, source, target)));
}

void add_pool(TensorProgram& p, size_t samples, size_t source_sample_stride,
              size_t target_sample_stride, const View& source, const View& target,
              const std::shared_ptr<Pool>& pool) {
  p.add(make_pooling(arena(p, samples, source_sample_stride, target_sample_stride), source, target,
                     pool));
}

void add_lrn(TensorProgram& p, size_t samples, size_t source_sample_stride,
             size_t target_sample_stride, const View& source, const View& target, int size,
             float alpha, float beta, float k) {
  ImageArena own = arena(p, samples, source_sample_stride, target_sample_stride);
  bool in_place = source.same_compact(target) && source_sample_stride == target_sample_stride &&
                  size > 0 && static_cast<size_t>(size) <= max_lrn_in_place;
  if (in_place)
    check_in_place(own, target);
  else
    check_samples(own, source, target);
  require(source.compact() && target.compact() && source.size() == target.size() &&
              source.channels == target.channels && size > 0,
          "normalisation keeps the shape, of images without gaps");
  Normalise step;
  step.in = source;
  step.out = target;
  step.samples = own.samples;
  step.size = size;
  step.alpha = alpha;
  step.beta = beta;
  step.k = k;
  p.add(step);
}

void add_space_to_depth(TensorProgram& p, size_t samples, size_t source_sample_stride,
                        size_t target_sample_stride, const View& source, const View& target,
                        const std::array<int64_t, 2>& stride, const std::vector<int64_t>& rows,
                        const std::vector<int64_t>& columns) {
  p.add(make_space_to_depth(arena(p, samples, source_sample_stride, target_sample_stride), source,
                            target, stride, rows, columns));
}

void add_depthwise(TensorProgram& p, size_t samples, size_t source_sample_stride,
                   size_t target_sample_stride, const View& source, const View& target,
                   const In<float, 3>& weights, const std::array<size_t, 2>& stride,
                   const std::array<size_t, 2>& padding, const std::array<size_t, 2>& dilation,
                   const Floats& bias, float low, float high, const Activation& activation) {
  require(weights.shape(0) == target.channels, "a kernel for each output channel is needed");
  p.add(Depthwise(arena(p, samples, source_sample_stride, target_sample_stride), source, target,
                  {{weights.shape(1), weights.shape(2)}, stride, padding, dilation},
                  {weights.data(), weights.data() + weights.size()},
                  {copy(bias), low, high, activation}));
}

void add_direct_conv(TensorProgram& p, size_t samples, size_t source_sample_stride,
                     size_t target_sample_stride, const View& source, const View& target,
                     const std::shared_ptr<DirectWeights>& weights,
                     const std::array<size_t, 2>& stride, const std::array<size_t, 2>& padding,
                     const Floats& bias, float low, float high, const Activation& activation) {
  p.add(DirectConv(arena(p, samples, source_sample_stride, target_sample_stride), source, target,
                   stride, padding, weights, copy(bias), {low, high, activation}));
}

void add_linear(TensorProgram& p, const Tensor& source, const Tensor& target,
                std::shared_ptr<LinearWeights> weights, const Floats& bias,
                const Activation& activation) {
  Tensor from = p.source(source), to = p.target(target);
  check_apart(from, to);
  require(from.storage == 0 && from.rank == 2 && to.rank == 2 && from.strides[1] == 1 &&
              to.strides[1] == 1,
          "a linear layer needs contiguous rows in the arena");
  require(from.shape[0] == to.shape[0] && from.shape[1] == weights->cols() &&
              to.shape[1] == weights->rows() && bias.size() == weights->rows(),
          "a linear layer's sizes must agree");
  Linear step;
  step.in = from.offset;
  step.out = to.offset;
  step.vectors = from.shape[0];
  step.in_stride = from.strides[0];
  step.out_stride = to.strides[0];
  step.weights = std::move(weights);
  step.bias = copy(bias);
  step.activation = activation;
  p.add(std::move(step));
}

}  // namespace

void bind_tensor_images(TensorBinding& program) {
  using nb::arg;
  const auto source = arg("source"), target = arg("target"), samples = arg("samples");
  const auto from_stride = arg("source_sample_stride"), to_stride = arg("target_sample_stride");
  program
      .def("add_conv", &add_conv, nb::kw_only(), samples, from_stride, to_stride, source, target,
           arg("height"), arg("width"), arg("first"), arg("flat"), arg("tile_rows"),
           arg("tile_vectors"), arg("split_channels"), arg("stages"),
           arg("factors").none() = nb::none())
      .def("add_pool", &add_pool, nb::kw_only(), samples, from_stride, to_stride, source, target,
           arg("pool"))
      .def("add_lrn", &add_lrn, nb::kw_only(), samples, from_stride, to_stride, source, target,
           arg("size"), arg("alpha"), arg("beta"), arg("k"))
      .def("add_space_to_depth", &add_space_to_depth, nb::kw_only(), samples, from_stride,
           to_stride, source, target, arg("stride"), arg("rows"), arg("columns"))
      .def("add_depthwise", &add_depthwise, nb::kw_only(), samples, from_stride, to_stride, source,
           target, arg("weights"), arg("stride"), arg("padding"), arg("dilation"), arg("bias"),
           arg("low"), arg("high"), arg("activation"))
      .def("add_direct_conv", &add_direct_conv, nb::kw_only(), samples, from_stride, to_stride,
           source, target, arg("weights"), arg("stride"), arg("padding"), arg("bias"), arg("low"),
           arg("high"), arg("activation"))
      .def("add_linear", &add_linear, nb::kw_only(), source, target, arg("weights"), arg("bias"),
           arg("activation"));
}

}  // namespace skinny
