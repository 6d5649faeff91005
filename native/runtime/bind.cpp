// What Python sees of the runtime: weights in kernel form, and an engine to which the planner adds
// steps one by one (bind_steps.cpp).
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "arguments.h"
#include "bind.h"
#include "bind_steps.h"
#include "direct_conv_step.h"

namespace nb = nanobind;

namespace skinny {
namespace {

using nb::arg;

void bind_constants(nb::module_& m) {
  m.attr("TILE_VECTORS") = tile_vectors;
  m.attr("MAX_BYTE_TAPS") = max_byte_taps;
  m.attr("MAX_LRN_IN_PLACE") = max_lrn_in_place;
  m.attr("MAX_TAPS") = max_taps;
  m.attr("MAX_OFFSET") = max_offset;
  m.attr("MAX_THREADS") = max_threads;
  m.attr("MOST_CACHED") = Engine::most_cached;
  m.attr("STRIP_FLOATS") = strip_floats;
  m.attr("CHAIN_STRIP_TILES") = chain_strip_tiles;
  nb::enum_<Mode>(m, "Mode", nb::is_arithmetic())
      .value("single", Mode::single)
      .value("prefix", Mode::prefix)
      .value("interleaved", Mode::interleaved)
      .value("tail", Mode::tail);
  nb::enum_<ActivationKind>(m, "ActivationKind")
      .value("none", ActivationKind::none)
      .value("clamp", ActivationKind::clamp)
      .value("leaky_relu", ActivationKind::leaky_relu)
      .value("elu", ActivationKind::elu)
      .value("sigmoid", ActivationKind::sigmoid)
      .value("tanh", ActivationKind::tanh)
      .value("silu", ActivationKind::silu)
      .value("gelu", ActivationKind::gelu)
      .value("gelu_tanh", ActivationKind::gelu_tanh)
      .value("hardswish", ActivationKind::hardswish)
      .value("hardsigmoid", ActivationKind::hardsigmoid);
}

void bind_weights(nb::module_& m) {
  nb::class_<ConvWeights>(m, "ConvWeights")
      .def("__init__",
           [](ConvWeights* self, const In<float, 2>& weights, size_t groups, size_t block_taps,
              size_t ranges, bool dense) {
             require(weights.size() && groups && groups <= max_offset &&
                         weights.shape(0) % groups == 0 && block_taps && ranges,
                     "a convolution's sizes must agree");
             nb::gil_scoped_release release;
             new (self) ConvWeights(weights.data(), weights.shape(0), weights.shape(1), groups,
                                    block_taps, ranges, dense);
           },
           nb::kw_only(), arg("weights"), arg("groups"), arg("block_taps"), arg("ranges"),
           arg("dense"))
      .def_prop_ro("bytes", &ConvWeights::bytes);
  nb::class_<DirectWeights>(m, "DirectWeights")
      .def("__init__",
           [](DirectWeights* self, const In<float, 4>& weights) {
             require(weights.size(), "a convolution has weights");
             nb::gil_scoped_release release;
             new (self) DirectWeights(weights.data(), weights.shape(0), weights.shape(1),
                                      {weights.shape(2), weights.shape(3)});
           },
           nb::kw_only(), arg("weights"))
      .def_prop_ro("bytes", &DirectWeights::bytes);
  nb::class_<LinearWeights>(m, "LinearWeights")
      .def("__init__",
           [](LinearWeights* self, const In<uint8_t, 1>& mask, const Floats& values, size_t rows,
              size_t columns) {
             size_t bits = product(rows, columns);
             require(bits && mask.size() == bits / 8 + (bits % 8 != 0),
                     "a mask needs one bit for each weight");
             auto owner = std::make_shared<const Floats>(values);
             nb::gil_scoped_release release;
             new (self) LinearWeights(mask.data(), values.data(), values.size(), std::move(owner),
                                      rows, columns);
           },
           nb::kw_only(), arg("mask"), arg("values"), arg("rows"), arg("columns"))
      .def("__init__",
           [](LinearWeights* self, const In<float, 2>& dense) {
             require(dense.size(), "a layer needs weights");
             nb::gil_scoped_release release;
             new (self) LinearWeights(dense.data(), dense.shape(0), dense.shape(1));
           },
           nb::kw_only(), arg("dense"))
      .def_static("most_strip_bytes", &StripWeights::most_bytes, nb::kw_only(), nb::arg("kept"))
      .def_prop_ro("form", &LinearWeights::form)
      .def_prop_ro("bytes", &LinearWeights::bytes);
}

void check_axis(const Pool::Axis& axis) {
  require(axis.dilation > 0 && !axis.begin.empty() && axis.end.size() == axis.begin.size() &&
              axis.scale.size() == axis.begin.size(),
          "a pooling window for each output is needed");
  for (size_t i = 0; i < axis.begin.size(); ++i)
    require(axis.begin[i] >= 0 && axis.begin[i] < axis.end[i],
            "a pooling window must not be empty");
}

// The arguments of steps.
void bind_arguments(nb::module_& m) {
  nb::class_<Activation>(m, "Activation")
      .def("__init__",
           [](Activation* self, ActivationKind kind, float a, float b) {
             new (self) Activation{kind, a, b};
           },
           arg("kind"), arg("a") = 0.f, arg("b") = 0.f);
  nb::class_<Stage>(m, "Stage")
      .def("__init__",
           [](Stage* self, std::shared_ptr<ConvWeights> weights, const Ints& offsets,
              int64_t group_stride, const Floats& bias, float low, float high,
              const Activation& activation) {
             require(bias.size() == weights->outputs(), "one bias for each output is needed");
             require(offsets.size() == weights->taps(), "one offset for each tap is needed");
             require(group_stride >= 0 && group_stride <= static_cast<int64_t>(max_offset),
                     "a convolution's groups must lie in the arena");
             TapOffsets taps(offsets.data(), offsets.size(), weights->block_taps(),
                             weights->groups(), group_stride);
             new (self)
                 Stage{std::move(weights), std::move(taps), copy(bias), {low, high, activation}};
           },
           nb::kw_only(), arg("weights"), arg("offsets"), arg("group_stride"), arg("bias"),
           arg("low"), arg("high"), arg("activation"));
  nb::class_<Pool>(m, "Pool")
      .def("__init__",
           [](Pool* self, bool max, Pool::Axis rows, Pool::Axis columns) {
             check_axis(rows);
             check_axis(columns);
             new (self) Pool(max, std::move(rows), std::move(columns));
           },
           nb::kw_only(), arg("max"), arg("rows"), arg("columns"));
}

using Result = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// Each step's seconds, by mode; no lists at all unless `timed`.
std::vector<std::vector<double>> run(const Engine& e, Images x, size_t size, const Result& y,
                                     size_t threads, bool timed) {
  const Program& tail = e.program(Mode::tail);
  size_t images = y.shape(0), singles = e.singles(images);
  require(images > 0 && tail.positions && y.shape(1) == tail.out.size(),
          "y must be [images][outputs]");
  for (Mode mode : {Mode::single, Mode::interleaved}) {
    if (mode == Mode::single ? singles == 0 : singles == images) continue;
    const Program& head = e.program(mode);
    const Program& prefix = e.program(Mode::prefix);
    bool divided = mode == Mode::interleaved && prefix.positions;
    const View& in = divided ? prefix.in : head.in;
    require(head.positions && size % images == 0 && size / images == in.size() &&
                head.out.size() == tail.in.size() &&
                (!divided || prefix.out.size() == head.in.size()),
            "x must be whole images, for a program that is complete");
    require(!x.bytes || x.scale.size() == in.channels,
            "a scale and a shift for each channel are needed");
    x.size = in.size();
  }
  require(threads > 0 && threads <= max_threads, "threads must be 1 to 1024");
  std::vector<std::vector<double>> seconds(timed ? mode_count : 0);
  nb::gil_scoped_release release;
  e.run(x, images, y.data(), threads, timed ? seconds.data() : nullptr);
  return seconds;
}

}  // namespace

void bind_runtime(nb::module_& m) {
  bind_constants(m);
  bind_weights(m);
  bind_arguments(m);
  nb::class_<Engine> engine(m, "Engine");
  engine.def(nb::init<>())
      .def_static("lanes", &Engine::lanes)
      .def_static("scratch_stride", [] { return scratch_stride(Engine::lanes()); })
      .def("singles", &Engine::singles, arg("images"))
      .def("workspace_bytes", &Engine::workspace_bytes, nb::kw_only(), arg("images"),
           arg("threads"))
      .def("generate", &Engine::generate, nb::kw_only(), arg("mode"), arg("max_bytes"),
           nb::call_guard<nb::gil_scoped_release>())
      .def("run_floats",
           [](const Engine& e, const Floats& x, const Result& y, size_t threads, bool timed) {
             return run(e, {nullptr, x.data(), {}, {}, 0}, x.size(), y, threads, timed);
           },
           nb::kw_only(), arg("x"), arg("y"), arg("threads"), arg("timed"))
      .def("run_bytes",
           [](const Engine& e, const In<uint8_t, 1>& x, const Floats& scale, const Floats& shift,
              const Result& y, size_t threads, bool timed) {
             require(shift.size() == scale.size(), "a shift for each scale is needed");
             return run(e, {x.data(), nullptr, copy(scale), copy(shift), 0}, x.size(), y, threads,
                        timed);
           },
           nb::kw_only(), arg("x"), arg("scale"), arg("shift"), arg("y"), arg("threads"),
           arg("timed"));
  bind_steps(engine);
}

}  // namespace skinny
