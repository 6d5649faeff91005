// How the planner adds steps to a program. Every step is checked against the arena as it is added,
// so that no mistake of the planner can make a kernel leave its memory.
#include "bind_steps.h"

#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <optional>

#include "arguments.h"
#include "depthwise_step.h"
#include "direct_conv_step.h"
#include "image_steps.h"

namespace nb = nanobind;

namespace skinny {
namespace {

const View& compact(const Program& p, const View& v) {
  require(inside(p.positions, v).compact(), "this step needs a compact view");
  return v;
}

template <class S>
void add(Program& p, S step) {
  p.steps.push_back(std::make_shared<const S>(std::move(step)));
}

// A step with one compact input.
template <class S>
S compact_step(const Program& p, const View& source, const View& target) {
  S step;
  step.in = compact(p, source);
  step.out = compact(p, target);
  apart(step.in, step.out);
  return step;
}

void begin(Engine& e, Mode mode, size_t positions, const View& source, const View& target,
           bool read_once) {
  require(positions <= max_offset, "the arena is too large to address");
  Program& p = e.program(mode);
  p.steps.clear();
  p.positions = positions;
  p.in = mode == Mode::tail ? compact(p, source) : inside(p.positions, source);
  p.out = compact(p, target);
  p.read_once = read_once;
}

// Images interleaved, of the programs that may have convolutions.
size_t interleaved(Mode mode) {
  require(mode != Mode::tail, "a convolution or pooling belongs to a head");
  return mode == Mode::interleaved ? Engine::lanes() : 1;
}

void add_chain(Engine& e, Mode mode, const View& source, const View& target, size_t height,
               size_t width, size_t first, bool flat, size_t tile_rows, size_t tile_vectors_across,
               bool split_channels, const std::vector<Stage>& stages,
               const std::shared_ptr<Pool>& pool, const std::optional<View>& residual, float low,
               float high, const std::optional<std::array<size_t, 3>>& image_rows) {
  size_t n = interleaved(mode);
  Program& p = e.program(mode);
  std::optional<Chain::Residual> added;
  if (residual) added = {*residual, low, high};
  std::optional<Chain::ImageRows> rows;
  if (image_rows) rows = {(*image_rows)[0], (*image_rows)[1], (*image_rows)[2]};
  add(p, make_chain({p.positions, n, {}}, source, target, height, width, first, flat, tile_rows,
                    tile_vectors_across, split_channels, stages, pool, std::nullopt, added, rows));
}

void add_depthwise(Engine& e, Mode mode, const View& source, const View& target,
                   const In<float, 3>& weights, const std::array<size_t, 2>& stride,
                   const std::array<size_t, 2>& padding, const std::array<size_t, 2>& dilation,
                   const Floats& bias, float low, float high, const Activation& activation) {
  require(mode == Mode::single || mode == Mode::prefix,
          "a depthwise convolution takes one image at a time");
  Program& p = e.program(mode);
  add(p, Depthwise({p.positions, 1, {}}, source, target,
                   {{weights.shape(1), weights.shape(2)}, stride, padding, dilation},
                   {weights.data(), weights.data() + weights.size()},
                   {copy(bias), low, high, activation}));
}

void add_direct_conv(Engine& e, Mode mode, const View& source, const View& target,
                     const std::shared_ptr<DirectWeights>& weights,
                     const std::array<size_t, 2>& stride, const std::array<size_t, 2>& padding,
                     const Floats& bias, float low, float high, const Activation& activation) {
  require(mode == Mode::single || mode == Mode::prefix,
          "a direct convolution takes one image at a time");
  Program& p = e.program(mode);
  add(p, DirectConv({p.positions, 1, {}}, source, target, stride, padding, weights, copy(bias),
                    {low, high, activation}));
}

void add_linear(Engine& e, Mode mode, const View& source, const View& target,
                std::shared_ptr<LinearWeights> weights, const Floats& bias,
                const Activation& activation) {
  Program& p = e.program(mode);
  apart(compact(p, source), compact(p, target));
  size_t vectors = source.size() / weights->cols();
  require(source.size() == product(vectors, weights->cols()) &&
              target.size() == product(vectors, weights->rows()) &&
              bias.size() == weights->rows(),
          "a linear layer's sizes must agree");
  size_t columns = weights->cols(), rows = weights->rows();
  Linear step;
  step.in = source.offset;
  step.out = target.offset;
  step.vectors = vectors;
  step.in_stride = columns;
  step.out_stride = rows;
  step.weights = std::move(weights);
  step.bias = copy(bias);
  step.activation = activation;
  add(p, std::move(step));
}

void add_pool(Engine& e, Mode mode, const View& source, const View& target,
              const std::shared_ptr<Pool>& pool) {
  size_t n = interleaved(mode);
  Program& p = e.program(mode);
  add(p, make_pooling({p.positions, n, {}}, source, target, pool));
}

void add_space_to_depth(Engine& e, Mode mode, const View& source, const View& target,
                        const std::array<int64_t, 2>& stride, const std::vector<int64_t>& rows,
                        const std::vector<int64_t>& columns) {
  Program& p = e.program(mode);
  add(p, make_space_to_depth({p.positions, 1, {}}, source, target, stride, rows, columns));
}

void add_activate(Engine& e, Mode mode, const View& source, const View& target,
                  const Activation& activation) {
  Program& p = e.program(mode);
  auto step = compact_step<Activate>(p, source, target);
  require(source.size() == target.size(), "an activation keeps the size");
  step.activation = activation;
  add(p, step);
}

void add_scale(Engine& e, Mode mode, const View& source, const View& target, const Floats& scale,
               const Floats& shift, const Activation& activation) {
  Program& p = e.program(mode);
  auto step = compact_step<Scale>(p, source, target);
  require(source.size() == target.size() && source.channels == target.channels &&
              scale.size() == source.channels && shift.size() == source.channels,
          "a scale and a shift for each channel are needed");
  step.scale = copy(scale);
  step.shift = copy(shift);
  step.activation = activation;
  add(p, std::move(step));
}

void add_lrn(Engine& e, Mode mode, const View& source, const View& target, int size, float alpha,
             float beta, float k) {
  Program& p = e.program(mode);
  auto step = compact_step<Normalise>(p, source, target);
  require(source.size() == target.size() && source.channels == target.channels && size > 0,
          "normalisation keeps the shape");
  step.size = size;
  step.alpha = alpha;
  step.beta = beta;
  step.k = k;
  add(p, step);
}

using Four = std::array<size_t, 4>;

void add_add(Engine& e, Mode mode, const View& left, const View& right, const View& target,
             const Four& shape, const Four& left_strides, const Four& right_strides) {
  Program& p = e.program(mode);
  Add step;
  step.left = compact(p, left);
  step.right = compact(p, right);
  step.out = compact(p, target);
  apart(step.left, step.out);
  apart(step.right, step.out);
  size_t left_last = 0, right_last = 0, total = 1;
  for (size_t i = 0; i < 4; ++i) {
    require(shape[i] && shape[i] <= max_offset && left_strides[i] <= max_offset &&
                right_strides[i] <= max_offset,
            "a sum's sizes must lie in the arena");
    left_last += (shape[i] - 1) * left_strides[i];
    right_last += (shape[i] - 1) * right_strides[i];
    total = product(total, shape[i]);
  }
  require(left_last < left.size() && right_last < right.size() && total == target.size(),
          "a sum must lie in its operands");
  std::copy(shape.begin(), shape.end(), step.shape);
  std::copy(left_strides.begin(), left_strides.end(), step.left_stride);
  std::copy(right_strides.begin(), right_strides.end(), step.right_stride);
  add(p, step);
}

void add_concat(Engine& e, Mode mode, const std::vector<View>& sources, const View& target,
                size_t outer) {
  Program& p = e.program(mode);
  Concat step;
  step.out = compact(p, target);
  size_t total = 0;
  for (const View& source : sources) {
    apart(compact(p, source), step.out);
    total += source.size();
    require(outer && source.size() % outer == 0, "an input must divide evenly");
  }
  require(total == target.size(), "the inputs must fill the output");
  step.in = sources;
  step.outer = outer;
  add(p, std::move(step));
}

void add_softmax(Engine& e, Mode mode, const View& source, const View& target, size_t outer,
                 size_t axis, size_t inner, bool log) {
  Program& p = e.program(mode);
  auto step = compact_step<Softmax>(p, source, target);
  require(product(product(outer, axis), inner) == source.size() &&
              target.size() == source.size(),
          "softmax keeps the size");
  step.outer = outer;
  step.axis = axis;
  step.inner = inner;
  step.log = log;
  add(p, step);
}

}  // namespace

void bind_steps(nb::class_<Engine>& engine) {
  using nb::arg;
  const auto mode = arg("mode"), source = arg("source"), target = arg("target");
  engine
      .def("begin", &begin, nb::kw_only(), mode, arg("positions"), source, target,
           arg("read_once") = false,
           "Starts the program of a mode anew, in an arena of `positions`. read_once: only the first "
           "step reads the source, the caller's where it can.")
      .def("add_chain", &add_chain, nb::kw_only(), mode, source, target, arg("height"),
           arg("width"), arg("first"), arg("flat"), arg("tile_rows"), arg("tile_vectors"),
           arg("split_channels"), arg("stages"), arg("pool").none(), arg("residual").none(),
           arg("low"), arg("high"), arg("image_rows") = nb::none())
      .def("add_depthwise", &add_depthwise, nb::kw_only(), mode, source, target, arg("weights"),
           arg("stride"), arg("padding"), arg("dilation"), arg("bias"), arg("low"), arg("high"),
           arg("activation"))
      .def("add_direct_conv", &add_direct_conv, nb::kw_only(), mode, source, target,
           arg("weights"), arg("stride"), arg("padding"), arg("bias"), arg("low"), arg("high"),
           arg("activation"))
      .def("add_linear", &add_linear, nb::kw_only(), mode, source, target, arg("weights"),
           arg("bias"), arg("activation"))
      .def("add_pool", &add_pool, nb::kw_only(), mode, source, target, arg("pool"))
      .def("add_space_to_depth", &add_space_to_depth, nb::kw_only(), mode, source, target,
           arg("stride"), arg("rows"), arg("columns"))
      .def("add_activate", &add_activate, nb::kw_only(), mode, source, target, arg("activation"))
      .def("add_scale", &add_scale, nb::kw_only(), mode, source, target, arg("scale"),
           arg("shift"), arg("activation"))
      .def("add_lrn", &add_lrn, nb::kw_only(), mode, source, target, arg("size"), arg("alpha"),
           arg("beta"), arg("k"))
      .def("add_add", &add_add, nb::kw_only(), mode, arg("left"), arg("right"), target,
           arg("shape"), arg("left_strides"), arg("right_strides"))
      .def("add_concat", &add_concat, nb::kw_only(), mode, arg("sources"), target, arg("outer"))
      .def("add_softmax", &add_softmax, nb::kw_only(), mode, source, target, arg("outer"),
           arg("axis"), arg("inner"), arg("log"));
}

}  // namespace skinny
