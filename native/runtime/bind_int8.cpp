// Steps of layers in int8, checked when they are added to a tensor program.
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <cmath>

#include "bind_tensors.h"
#include "image_steps.h"
#include "int8_table.h"
#include "int8_steps.h"
#include "workspace.h"

namespace nb = nanobind;

namespace skinny {
namespace {

using Bytes = In<int8_t, 2>;
using Integers = nb::ndarray<nb::numpy, int8_t, nb::ndim<2>, nb::c_contig>;

Integers owned(std::vector<int8_t> values, size_t rows) {
  auto* kept = new std::vector<int8_t>(std::move(values));
  nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<int8_t>*>(p); });
  return Integers(kept->data(), {rows, kept->size() / rows}, owner);
}

using nb::arg;

// What a step reads or writes of the arena.
struct Extent {
  size_t begin, end;
};

void apart(const Extent& a, const Extent& b) {
  require(a.end <= b.begin || b.end <= a.begin, "a step must not write what it reads");
}

Extent extent(const Tensor& tensor) {
  return tensor.storage ? Extent{0, 0} : Extent{tensor.offset, tensor.offset + tensor.extent() + 1};
}

Extent extent(const TensorProgram& p, const CellImage& image, size_t samples) {
  require(samples && samples <= max_offset && image.sample_stride <= max_offset,
          "the samples must lie in the arena");
  inside(p.cells(), image.view);
  size_t end = image.view.end() + (samples - 1) * image.sample_stride;
  require(end <= p.cells(), "the samples must lie in the arena");
  require(samples == 1 || image.view.end() - image.view.offset <= image.sample_stride,
          "the samples must not overlap");
  return {image.view.offset, end};
}

Quantization quantization(float scale, int zero) {
  require(std::isfinite(scale) && scale > 0 && zero >= 0 && zero <= 255,
          "a scale must be positive and a zero point a byte");
  return {scale, zero};
}

// That floats [samples, channels, height, width] are those of the view's cells.
void check_image(const Tensor& floats, const View& v, size_t samples, bool rows) {
  require(floats.rank == 4 && floats.shape[0] == samples && v.channels == divide_up(floats.shape[1], 4) &&
              floats.shape[2] == v.height && floats.shape[3] == v.width,
          "floats and cells must be of one shape");
  require(!rows || floats.strides[3] == 1 || floats.shape[3] == 1, "the columns must be contiguous");
}

void add_quantize(TensorProgram& p, const Tensor& source, const View& target, size_t stride,
                  float scale, int zero) {
  Tensor from = p.source(source);
  CellImage to{target, stride};
  require(from.rank == 4, "an image has four axes");
  Extent written = extent(p, to, from.shape[0]);
  check_image(from, target, from.shape[0], false);
  apart(extent(from), written);
  p.add(Quantize(from, to, quantization(scale, zero)));
}

void add_quantize_rows(TensorProgram& p, const Tensor& source, size_t target, size_t stride,
                       float scale, int zero) {
  Tensor from = p.source(source);
  require(from.rank == 2 && (from.strides[1] == 1 || from.shape[1] == 1), "rows must be contiguous");
  require(target <= max_offset && stride <= max_offset && from.shape[1] <= 4 * stride &&
              target + from.shape[0] * stride <= p.cells(),
          "the rows must lie in the arena");
  apart(extent(from), {target, target + from.shape[0] * stride});
  p.add(QuantizeRows(from, target, stride, quantization(scale, zero)));
}

void add_dequantize(TensorProgram& p, const View& source, size_t stride, const Tensor& target,
                    float scale, int zero) {
  Tensor to = p.target(target);
  require(to.rank == 4, "an image has four axes");
  CellImage from{source, stride};
  Extent read = extent(p, from, to.shape[0]);
  check_image(to, source, to.shape[0], true);
  apart(read, extent(to));
  p.add(Dequantize(from, to, quantization(scale, zero)));
}

void add_move_cells(TensorProgram& p, size_t samples, const View& source, size_t source_stride,
                    const View& target, size_t target_stride, const std::array<int64_t, 2>& stride,
                    const std::vector<int64_t>& rows, const std::vector<int64_t>& columns,
                    int zero) {
  MoveCells step;
  step.source = {source, source_stride};
  step.target = {target, target_stride};
  step.samples = samples;
  apart(extent(p, step.source, samples), extent(p, step.target, samples));
  require(!rows.empty() && rows.size() == columns.size() &&
              target.channels == product(source.channels, rows.size()),
          "a channel for each phase is needed");
  for (int64_t s : stride) require(s >= 1 && s <= 1 << 12, "a stride is out of range");
  for (const auto& list : {rows, columns})
    for (int64_t at : list) require(at >= -(int64_t{1} << 31) && at < int64_t{1} << 31, "a phase is out of range");
  step.stride_y = stride[0];
  step.stride_x = stride[1];
  step.row = rows;
  step.column = columns;
  step.zero = quantization(1, zero).zero;
  p.add(std::move(step));
}

void add_pool_cells(TensorProgram& p, size_t samples, const View& source, size_t source_stride,
                    const View& target, size_t target_stride, const std::shared_ptr<Pool>& pool,
                    int zero) {
  PoolCells step;
  step.source = {source, source_stride};
  step.target = {target, target_stride};
  step.samples = samples;
  apart(extent(p, step.source, samples), extent(p, step.target, samples));
  require(pool->max && source.channels == target.channels, "cells have max pooling alone");
  auto check = [](const Pool::Axis& axis, size_t inputs, size_t outputs) {
    require(axis.begin.size() == outputs, "a pooling window for each output is needed");
    for (size_t i = 0; i < outputs; ++i)
      require(axis.begin[i] >= 0 && static_cast<size_t>(axis.end[i]) <= inputs,
              "a pooling window must lie in its input");
  };
  check(pool->rows, source.height, target.height);
  check(pool->columns, source.width, target.width);
  step.pool = pool;
  step.zero = quantization(1, zero).zero;
  p.add(std::move(step));
}

struct Images {
  std::optional<CellImage> cells;
  std::optional<Tensor> floats;
  Extent extent{0, 0};
};

void add_conv_int8(TensorProgram& p, size_t samples, const View& source, size_t source_stride,
                   size_t height, size_t width, size_t first, const Ints& offsets,
                   std::shared_ptr<Int8Weights> weights, const std::optional<View>& cells,
                   size_t cells_stride, const std::optional<Tensor>& floats, float scale, int zero,
                   float low, float high, const std::optional<View>& added_cells,
                   size_t added_stride, const std::optional<Tensor>& added_floats,
                   float added_scale, int added_zero) {
  CellImage from{source, source_stride};
  Extent read = extent(p, from, samples);
  require(height && width && height <= max_offset && width <= max_offset &&
              width <= source.row_stride && first <= max_offset,
          "an image must not be empty");
  require(cells.has_value() != floats.has_value(), "a layer writes cells or floats");
  require(!added_cells || !added_floats, "a layer adds one value");
  size_t outputs = weights->outputs();
  auto fits_cells = [&](const View& v) {
    require(v.channels == divide_up(outputs, 4) && v.height == height && v.width == width,
            "cells must be of the layer's shape");
  };
  auto fits_floats = [&](const Tensor& t) {
    require(t.rank == 4 && t.shape[0] == samples && t.shape[1] == outputs && t.shape[2] == height &&
                t.shape[3] == width && (t.strides[3] == 1 || width == 1),
            "floats must be of the layer's shape");
    require(t.extent() <= max_offset, "a tensor is too large to address");
  };
  ConvInt8::Target target{std::nullopt, std::nullopt, quantization(scale, zero), low, high};
  ConvInt8::Added added{std::nullopt, std::nullopt, quantization(added_scale, added_zero)};
  Extent written{0, 0};
  if (cells) {
    fits_cells(*cells);
    target.cells = CellImage{*cells, cells_stride};
    written = extent(p, *target.cells, samples);
    require(std::abs(low) <= 255 && std::abs(high) <= 255 && low <= high &&
                low >= static_cast<float>(-zero) && high <= static_cast<float>(255 - zero),
            "the limits of a byte are out of range");
  } else {
    target.floats = p.target(*floats);
    fits_floats(*target.floats);
    written = extent(*target.floats);
  }
  apart(read, written);
  if (added_cells) {
    fits_cells(*added_cells);
    added.cells = CellImage{*added_cells, added_stride};
    apart(extent(p, *added.cells, samples), written);
  }
  if (added_floats) {
    added.floats = p.source(*added_floats);
    fits_floats(*added.floats);
    apart(extent(*added.floats), written);
  }
  ConvInt8 step(from, samples, height, width, first, copy(offsets), std::move(weights), target,
                added);
  require(step.last_read() < p.cells() + arena_slack, "a tap must lie in the arena");
  p.add(std::move(step));
}

void add_linear_int8(TensorProgram& p, size_t source, size_t source_stride, const Tensor& target,
                     std::shared_ptr<Int8Matrix> weights, float low, float high) {
  LinearInt8 step;
  step.target = p.target(target);
  require(step.target.rank == 2 && step.target.shape[1] == weights->outputs() &&
              (step.target.strides[1] == 1 || weights->outputs() == 1),
          "rows of a number for each output are needed");
  require(source <= max_offset && source_stride <= max_offset &&
              16 * weights->words() <= source_stride &&
              source + step.target.shape[0] * source_stride <= p.cells(),
          "the rows must lie in the arena");
  apart({source, source + step.target.shape[0] * source_stride}, extent(step.target));
  step.source = source;
  step.source_stride = source_stride;
  step.weights = std::move(weights);
  step.low = low;
  step.high = high;
  p.add(std::move(step));
}

}  // namespace

void bind_int8_weights(nb::module_& m) {
  m.attr("MAX_INT8_TAPS") = max_int8_taps;
  nb::class_<Int8Weights>(m, "Int8Weights")
      .def("__init__",
           [](Int8Weights* self, const Bytes& quads, int zero, const Floats& scale,
              const Floats& bias) {
             require(quads.size() && quads.shape(1) % 4 == 0, "quads are four weights each");
             new (self) Int8Weights(quads.data(), quads.shape(0), quads.shape(1) / 4,
                                    quantization(1, zero).zero, copy(scale), copy(bias));
           },
           nb::kw_only(), arg("quads"), arg("zero"), arg("scale"), arg("bias"))
      .def("integers", [](const Int8Weights& w) { return owned(w.integers(), w.outputs()); })
      .def_prop_ro("quads", &Int8Weights::quads)
      .def_prop_ro("bytes", &Int8Weights::bytes);
  nb::class_<Int8Matrix>(m, "Int8Matrix")
      .def("__init__",
           [](Int8Matrix* self, const Bytes& weights, int zero, const Floats& scale,
              const Floats& bias) {
             require(weights.size(), "a layer needs weights");
             new (self) Int8Matrix(weights.data(), weights.shape(0), weights.shape(1),
                                   quantization(1, zero).zero, copy(scale), copy(bias));
           },
           nb::kw_only(), arg("weights"), arg("zero"), arg("scale"), arg("bias"))
      .def("integers", [](const Int8Matrix& w) { return owned(w.integers(), w.outputs()); })
      .def_prop_ro("bytes", &Int8Matrix::bytes);
  nb::class_<Int8Table>(m, "Int8Table")
      .def("__init__",
           [](Int8Table* self, const Bytes& integers, const Floats& scale) {
             require(integers.size() && integers.shape(0) == scale.size(),
                     "a table needs a scale for each row");
             new (self) Int8Table({integers.data(), integers.data() + integers.size()}, copy(scale));
           },
           nb::kw_only(), arg("integers"), arg("scale"))
      .def("integers", [](const Int8Table& t) { return owned(t.integers(), t.rows()); })
      .def_prop_ro("bytes", &Int8Table::bytes);
}

void bind_int8(TensorBinding& program) {
  program
      .def("add_quantize", &add_quantize, nb::kw_only(), arg("source"), arg("target"),
           arg("stride"), arg("scale"), arg("zero"))
      .def("add_quantize_rows", &add_quantize_rows, nb::kw_only(), arg("source"), arg("target"),
           arg("stride"), arg("scale"), arg("zero"))
      .def("add_dequantize", &add_dequantize, nb::kw_only(), arg("source"), arg("stride"),
           arg("target"), arg("scale"), arg("zero"))
      .def("add_move_cells", &add_move_cells, nb::kw_only(), arg("samples"), arg("source"),
           arg("source_stride"), arg("target"), arg("target_stride"), arg("stride"), arg("rows"),
           arg("columns"), arg("zero"))
      .def("add_pool_cells", &add_pool_cells, nb::kw_only(), arg("samples"), arg("source"),
           arg("source_stride"), arg("target"), arg("target_stride"), arg("pool"), arg("zero"))
      .def("add_conv_int8", &add_conv_int8, nb::kw_only(), arg("samples"), arg("source"),
           arg("source_stride"), arg("height"), arg("width"), arg("first"), arg("offsets"),
           arg("weights"), arg("cells").none(), arg("cells_stride"), arg("floats").none(),
           arg("scale"), arg("zero"), arg("low"), arg("high"), arg("added_cells").none(),
           arg("added_stride"), arg("added_floats").none(), arg("added_scale"), arg("added_zero"))
      .def("add_linear_int8", &add_linear_int8, nb::kw_only(), arg("source"), arg("source_stride"),
           arg("target"), arg("weights"), arg("low"), arg("high"));
}

}  // namespace skinny
