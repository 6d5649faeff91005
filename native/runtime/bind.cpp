// What Python sees of the runtime: weights in kernel form, and an engine to which the planner adds
// steps one by one. Every step is checked against the arena as it is added, so that no mistake of
// the planner can make a kernel leave its memory.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <stdexcept>

#include "bind.h"
#include "program.h"

namespace nb = nanobind;

namespace skinny {
namespace {

template <class T, int Dimensions>
using In = nb::ndarray<const T, nb::ndim<Dimensions>, nb::c_contig, nb::device::cpu>;
using Floats = In<float, 1>;
using Ints = In<int32_t, 1>;
using Box = std::array<size_t, 7>;  // the fields of a View
using ActivationArgs = std::tuple<int, float, float>;

void require(bool holds, const char* otherwise) {
  if (!holds) throw std::invalid_argument(otherwise);
}

template <class T>
std::vector<T> copy(const In<T, 1>& array) {
  return {array.data(), array.data() + array.size()};
}

View view(const Box& box) {
  View v{box[0], box[1], box[2], box[3], box[4], box[5], box[6]};
  require(v.channels && v.height && v.width, "a view must not be empty");
  require(v.pitch >= v.width && v.origin + (v.height - 1) * v.pitch + v.width <= v.plane,
          "a view's rows must lie in its plane");
  return v;
}

Activation activation(int kind) {
  require(kind >= 0 && kind <= static_cast<int>(Activation::hardsigmoid), "unknown activation");
  return static_cast<Activation>(kind);
}

Program& program(Engine& engine, size_t phase) {
  require(phase < phases, "unknown phase");
  return engine.program[phase];
}

View inside(const Program& p, const Box& box) {
  View v = view(box);
  require(v.end() <= p.positions, "a view must lie in the arena");
  return v;
}

View compact(const Program& p, const Box& box) {
  View v = inside(p, box);
  require(v.compact(), "this step needs a compact view");
  return v;
}

size_t interleaved(size_t phase) { return phase == block ? Engine::lanes() : 1; }

void begin(Engine& e, size_t phase, size_t positions, const Box& in, const Box& out) {
  Program& p = program(e, phase);
  p.steps.clear();
  p.positions = positions;
  p.in = inside(p, in);
  p.out = compact(p, out);
}

template <class S>
void add(Program& p, S step) {
  p.steps.push_back(std::make_shared<const S>(std::move(step)));
}

Pool::Axis axis(const Ints& begins, const Ints& ends, const Floats& scale, int32_t step,
                   size_t inputs, size_t outputs) {
  require(step > 0 && begins.size() == outputs && ends.size() == outputs && scale.size() == outputs,
          "a pooling window for each output is needed");
  for (size_t i = 0; i < outputs; ++i)
    require(begins.data()[i] >= 0 && begins.data()[i] < ends.data()[i] &&
                static_cast<size_t>(ends.data()[i]) <= inputs &&
                static_cast<size_t>(ends.data()[i] - begins.data()[i]) <=
                    Pool::most_rows * static_cast<size_t>(step),
            "a pooling window must lie in its input");
  return {copy(begins), copy(ends), copy(scale), step};
}

using AxisArgs = std::tuple<Ints, Ints, Floats, int32_t>;

std::shared_ptr<const Pool> pooling(bool max, const AxisArgs& rows, const AxisArgs& columns, size_t height, size_t width,
             const View& out) {
  auto make = [](const AxisArgs& a, size_t inputs, size_t outputs) {
    return axis(std::get<0>(a), std::get<1>(a), std::get<2>(a), std::get<3>(a), inputs, outputs);
  };
  auto pool = std::make_shared<Pool>();
  pool->max = max;
  pool->rows = make(rows, height, out.height);
  pool->columns = make(columns, width, out.width);
  pool->prepare();
  return pool;
}

using StageArgs = std::tuple<std::shared_ptr<ConvWeights>, Floats, float, float, ActivationArgs>;
using PoolArgs = std::tuple<bool, AxisArgs, AxisArgs>;

void add_chain(Engine& e, size_t phase, const Box& in, const Box& out, size_t height, size_t width,
               size_t first, bool flat, size_t tile_rows, size_t tile_columns, bool share_channels,
               const std::vector<StageArgs>& stages, const std::optional<PoolArgs>& pool) {
  Program& p = program(e, phase);
  require(phase != tail, "a convolution belongs to a head");
  Chain step;
  step.in = inside(p, in);
  step.out = inside(p, out);
  step.height = height;
  step.width = width;
  if (pool) {
    require(!flat && !share_channels && tile_rows == 1, "only rows can be pooled as they come");
    step.pool = pooling(std::get<0>(*pool), std::get<1>(*pool), std::get<2>(*pool), height, width,
                        step.out);
  } else {
    require(height == step.out.height && width == step.out.width, "a chain must fill its output");
  }
  step.first = first;
  step.flat = flat;
  step.tile_rows = tile_rows;
  step.tile_columns = tile_columns;
  step.share_channels = share_channels;
  size_t n = interleaved(phase), lanes = Engine::lanes();
  require(tile_rows && tile_columns && tile_rows * tile_columns <= tile_vectors,
          "a tile must fit the registers");
  require(!flat || (n == 1 && width <= step.in.pitch), "only one image may be laid out flat");
  require(!stages.empty() && !(share_channels && stages.size() > 1),
          "a chain that shares channels has one stage");
  for (const auto& [weights, bias, low, high, act] : stages) {
    size_t channels = step.stages.empty() ? 0 : step.stages.back().weights->outputs();
    require(weights && bias.size() == weights->outputs(), "one bias for each output is needed");
    int64_t from = 0, to = static_cast<int64_t>(channels * tile_vectors * lanes);
    if (step.stages.empty()) {
      size_t rows = flat ? 1 : height;
      size_t columns = flat ? (height - 1) * step.in.pitch + width : width * n;
      from = static_cast<int64_t>((step.in.offset + first) * n);
      // The last tile may be wider than the row by less than a vector: the arena's slack.
      to = static_cast<int64_t>(p.positions * n) - from -
           static_cast<int64_t>((rows - 1) * step.in.pitch * n + columns);
      require(weights->lowest() + from >= 0 && weights->highest() <= to,
              "a tap must lie in the arena");
    } else {
      require(weights->lowest() >= 0 &&
                  weights->highest() + static_cast<int64_t>(tile_vectors * lanes) <= to,
              "a tap must lie in the scratch buffer");
    }
    step.stages.push_back({weights, copy(bias), low, high, activation(std::get<0>(act)),
                           std::get<1>(act), std::get<2>(act)});
  }
  require(step.stages.back().weights->outputs() == step.out.channels,
          "a chain's last stage must make its output's channels");
  add(p, std::move(step));
}

void add_linear(Engine& e, size_t phase, const Box& in, const Box& out,
                std::shared_ptr<LinearWeights> weights, const Floats& bias,
                const ActivationArgs& act) {
  Program& p = program(e, phase);
  Linear step;
  step.in = compact(p, in);
  step.out = compact(p, out);
  require(weights && step.in.size() == weights->cols() && step.out.size() == weights->rows() &&
              bias.size() == weights->rows(),
          "a linear layer's sizes must agree");
  step.weights = weights;
  step.bias = copy(bias);
  step.activation = activation(std::get<0>(act));
  step.a = std::get<1>(act);
  step.b = std::get<2>(act);
  add(p, std::move(step));
}

void add_pool(Engine& e, size_t phase, const Box& in, const Box& out, bool max,
              const AxisArgs& rows, const AxisArgs& columns) {
  Program& p = program(e, phase);
  Pooling step;
  step.in = inside(p, in);
  step.out = inside(p, out);
  require(step.in.channels == step.out.channels, "pooling keeps the channels");
  require(phase != tail, "pooling belongs to a head");
  step.pool = pooling(max, rows, columns, step.in.height, step.in.width, step.out);
  add(p, std::move(step));
}

void add_sample(Engine& e, size_t phase, const Box& in, const Box& out, int64_t stride_y,
                int64_t stride_x, const std::vector<int64_t>& row,
                const std::vector<int64_t>& column) {
  Program& p = program(e, phase);
  Sample step;
  step.in = inside(p, in);
  step.out = inside(p, out);
  require(stride_y > 0 && stride_x > 0 && !row.empty() && row.size() == column.size() &&
              step.out.channels == step.in.channels * row.size(),
          "sampling needs a row and a column for each phase");
  step.stride_y = stride_y;
  step.stride_x = stride_x;
  step.row = row;
  step.column = column;
  add(p, std::move(step));
}

void add_activate(Engine& e, size_t phase, const Box& in, const Box& out,
                  const ActivationArgs& act) {
  Program& p = program(e, phase);
  Activate step;
  step.in = compact(p, in);
  step.out = compact(p, out);
  require(step.in.size() == step.out.size(), "an activation keeps the size");
  step.activation = activation(std::get<0>(act));
  step.a = std::get<1>(act);
  step.b = std::get<2>(act);
  add(p, step);
}

void add_scale(Engine& e, size_t phase, const Box& in, const Box& out, const Floats& scale,
               const Floats& shift) {
  Program& p = program(e, phase);
  Scale step;
  step.in = compact(p, in);
  step.out = compact(p, out);
  require(step.in.size() == step.out.size() && step.in.channels == step.out.channels &&
              scale.size() == step.in.channels && shift.size() == step.in.channels,
          "a scale and a shift for each channel are needed");
  step.scale = copy(scale);
  step.shift = copy(shift);
  add(p, std::move(step));
}

void add_lrn(Engine& e, size_t phase, const Box& in, const Box& out, int size, float alpha,
             float beta, float k) {
  Program& p = program(e, phase);
  Normalise step;
  step.in = compact(p, in);
  step.out = compact(p, out);
  require(step.in.size() == step.out.size() && step.in.channels == step.out.channels && size > 0,
          "normalisation keeps the shape");
  step.size = size;
  step.alpha = alpha;
  step.beta = beta;
  step.k = k;
  add(p, step);
}

void add_add(Engine& e, size_t phase, const Box& left, const Box& right, const Box& out,
             const std::array<size_t, 4>& shape, const std::array<size_t, 4>& left_stride,
             const std::array<size_t, 4>& right_stride) {
  Program& p = program(e, phase);
  Add step;
  step.left = compact(p, left);
  step.right = compact(p, right);
  step.out = compact(p, out);
  size_t left_last = 0, right_last = 0, total = 1;
  for (size_t i = 0; i < 4; ++i) {
    require(shape[i] > 0, "an empty sum");
    left_last += (shape[i] - 1) * left_stride[i];
    right_last += (shape[i] - 1) * right_stride[i];
    total *= shape[i];
  }
  require(left_last < step.left.size() && right_last < step.right.size() &&
              total == step.out.size(),
          "a sum must lie in its operands");
  std::copy(shape.begin(), shape.end(), step.shape);
  std::copy(left_stride.begin(), left_stride.end(), step.left_stride);
  std::copy(right_stride.begin(), right_stride.end(), step.right_stride);
  add(p, step);
}

void add_concat(Engine& e, size_t phase, const std::vector<Box>& in, const Box& out,
                size_t outer) {
  Program& p = program(e, phase);
  Concat step;
  size_t total = 0;
  for (const Box& box : in) {
    step.in.push_back(compact(p, box));
    total += step.in.back().size();
    require(outer && step.in.back().size() % outer == 0, "a part must divide evenly");
  }
  step.out = compact(p, out);
  require(total == step.out.size(), "the parts must make the whole");
  step.outer = outer;
  add(p, std::move(step));
}

void add_softmax(Engine& e, size_t phase, const Box& in, const Box& out, size_t outer, size_t axis,
                 size_t inner, bool log) {
  Program& p = program(e, phase);
  Softmax step;
  step.in = compact(p, in);
  step.out = compact(p, out);
  require(step.in.size() == outer * axis * inner && step.out.size() == step.in.size() && axis,
          "softmax keeps the size");
  step.outer = outer;
  step.axis = axis;
  step.inner = inner;
  step.log = log;
  add(p, step);
}

using Result = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

std::vector<std::vector<double>> run(const Engine& e, Images x, size_t images, size_t size,
                                     const Result& y, size_t threads, bool timed) {
  require(images > 0 && e.program[tail].positions && images == y.shape(0) &&
              y.shape(1) == e.program[tail].out.size(),
          "y must be [images][outputs]");
  for (Phase phase : {single, block}) {
    const Program& p = e.program[phase];
    size_t singles = Engine::singles(images);
    if (phase == single ? singles == 0 : singles == images) continue;
    require(p.positions && size == images * p.in.size() &&
                p.out.size() == e.program[tail].in.size(),
            "x must be whole images, for a program that is complete");
    require(!x.bytes || x.scale.size() == p.in.channels,
            "a scale and a shift for each channel are needed");
    x.size = p.in.size();
  }
  require(threads > 0, "at least one thread is needed");
  std::vector<std::vector<double>> seconds(timed ? size_t{phases} : 0);
  nb::gil_scoped_release release;
  e.run(x, images, y.data(), threads, timed ? seconds.data() : nullptr);
  return seconds;
}

}  // namespace

void bind_runtime(nb::module_& m) {
  nb::class_<ConvWeights>(m, "ConvWeights")
      .def("__init__",
           [](ConvWeights* self, const In<float, 2>& weights, const Ints& offsets, size_t groups,
              int64_t group_stride, size_t block_taps, size_t parts, bool dense) {
             require(offsets.size() && offsets.size() == weights.shape(1) && weights.shape(0) &&
                         groups && weights.shape(0) % groups == 0 && block_taps && parts,
                     "a convolution's sizes must agree");
             nb::gil_scoped_release release;
             new (self) ConvWeights(weights.data(), weights.shape(0), offsets.data(),
                                    offsets.size(), groups, group_stride, block_taps, parts, dense);
           })
      .def_prop_ro("bytes", &ConvWeights::bytes);
  nb::class_<LinearWeights>(m, "LinearWeights")
      .def("__init__",
           [](LinearWeights* self, const In<uint8_t, 1>& mask, const Floats& values, size_t rows,
              size_t cols) {
             require(rows && cols && mask.size() == (rows * cols + 7) / 8,
                     "a mask needs one bit for each weight");
             auto owner = std::make_shared<const Floats>(values);
             nb::gil_scoped_release release;
             new (self) LinearWeights(mask.data(), values.data(), values.size(), std::move(owner),
                                      rows, cols);
           })
      .def("__init__",
           [](LinearWeights* self, const In<float, 2>& dense) {
             require(dense.size(), "a layer needs weights");
             nb::gil_scoped_release release;
             new (self) LinearWeights(dense.data(), dense.shape(0), dense.shape(1));
           })
      .def_prop_ro("form", &LinearWeights::form)
      .def_prop_ro("bytes", &LinearWeights::bytes);
  nb::class_<Engine>(m, "Engine")
      .def(nb::init<>())
      .def_static("lanes", &Engine::lanes)
      .def_static("singles", &Engine::singles)
      .def("begin", &begin)
      .def("add_chain", &add_chain, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
           nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none())
      .def("add_linear", &add_linear)
      .def("add_pool", &add_pool)
      .def("add_sample", &add_sample)
      .def("add_activate", &add_activate)
      .def("add_scale", &add_scale)
      .def("add_lrn", &add_lrn)
      .def("add_add", &add_add)
      .def("add_concat", &add_concat)
      .def("add_softmax", &add_softmax)
      .def("run_floats",
           [](const Engine& e, const Floats& x, const Result& y, size_t threads, bool timed) {
             return run(e, {nullptr, x.data(), {}, {}, 0}, y.shape(0), x.size(), y, threads, timed);
           })
      .def("run_bytes", [](const Engine& e, const In<uint8_t, 1>& x, const Floats& scale,
                           const Floats& shift, const Result& y, size_t threads, bool timed) {
        require(shift.size() == scale.size(), "a shift for each scale is needed");
        return run(e, {x.data(), nullptr, copy(scale), copy(shift), 0}, y.shape(0), x.size(), y,
                   threads, timed);
      });
}

}  // namespace skinny
