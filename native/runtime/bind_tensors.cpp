// What Python sees of a tensor program: its inputs, outputs and constants, and the steps that copy.
// Every tensor is checked as it is added, so that no mistake of the planner can make a kernel leave
// its memory.
#include "bind_tensors.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>

#include "bind.h"

namespace nb = nanobind;

namespace skinny {
namespace {

using nb::arg;

constexpr double usual_grain = 5000;  // nanoseconds; handing a task to a thread takes about one

using AnyArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using Result = nb::ndarray<float, nb::c_contig, nb::device::cpu>;

struct TypeName {
  const char* name;
  CellType type;
  nb::dlpack::dtype dtype;
};

const TypeName* types() {
  static const TypeName all[] = {{"float32", CellType::float32, nb::dtype<float>()},
                                 {"int64", CellType::int64, nb::dtype<int64_t>()},
                                 {"int32", CellType::int32, nb::dtype<int32_t>()},
                                 {"uint8", CellType::uint8, nb::dtype<uint8_t>()},
                                 {"bool", CellType::boolean, nb::dtype<bool>()}};
  return all;
}

void add_input(TensorProgram& p, const Tensor& target, const std::string& dtype) {
  for (size_t i = 0; i < 5; ++i)
    if (dtype == types()[i].name) return p.add_input(target, types()[i].type);
  require(false, "an input must be of float32, int64, int32, uint8 or bool");
}

void add_copy(TensorProgram& p, const Tensor& source, const Tensor& target) {
  Tensor from = p.source(source), to = p.target(target);
  check_same_shape(from, to);
  check_apart(from, to);
  p.add(Copy(from, to));
}

void add_reindex(TensorProgram& p, const Tensor& source, const Tensor& target,
                 const std::vector<Ints>& index) {
  Tensor from = p.source(source), to = p.target(target);
  check_apart(from, to);
  std::vector<std::vector<int32_t>> entries;
  for (const Ints& axis : index) entries.push_back(copy(axis));
  p.add(Reindex(from, to, entries));
}

void add_fill(TensorProgram& p, const Tensor& target, float value) {
  p.add(Fill(p.target(target), value));
}

template <class Array>
void check_shape(const Array& array, const Tensor& tensor, size_t samples) {
  bool equal = array.ndim() == tensor.rank && (samples == 1 || tensor.rank);
  for (size_t axis = 0; equal && axis < tensor.rank; ++axis)
    equal = array.shape(axis) == tensor.shape[axis] * (axis ? 1 : samples);
  require(equal, "an array must have the shape that was planned");
}

std::vector<double> run(const TensorProgram& p, const std::vector<nb::object>& inputs,
                        const std::vector<nb::object>& outputs, size_t samples, size_t threads,
                        bool timed) {
  require(samples > 0 && samples <= max_offset, "a run needs a sample at least");
  require(inputs.size() == p.inputs().size() && outputs.size() == p.outputs().size(),
          "an array for each input and output is needed");
  require(threads > 0 && threads <= max_threads, "threads must be 1 to 1024");
  std::vector<AnyArray> read;  // keep the arrays alive
  std::vector<Result> written;
  std::vector<const void*> from;
  std::vector<float*> to;
  // Without conversions: a result would be written to a copy.
  for (size_t i = 0; i < inputs.size(); ++i) {
    require(nb::try_cast(inputs[i], read.emplace_back(), false),
            "an input must be a contiguous array");
    require(read.back().dtype() == types()[static_cast<size_t>(p.inputs()[i].type)].dtype,
            "an input must be of the type that was planned");
    check_shape(read.back(), p.inputs()[i].target, samples);
    from.push_back(read.back().data());
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    require(nb::try_cast(outputs[i], written.emplace_back(), false),
            "an output must be a contiguous, writable array of float32");
    check_shape(written.back(), p.outputs()[i].source, samples);
    to.push_back(written.back().data());
  }
  nb::gil_scoped_release release;
  return p.run(from, to, samples, threads, timed);
}

}  // namespace

void bind_tensors(nb::module_& m) {
  bind_int8_weights(m);
  TensorBinding program(m, "TensorProgram");
  program.def(nb::init<size_t, double>(), nb::kw_only(), arg("cells"), arg("grain") = usual_grain)
      .def("add_constant",
           [](TensorProgram& p, const Floats& values) {
             return p.add_constant(values.data(), values.size(),
                                   std::make_shared<const Floats>(values));
           },
           nb::kw_only(), arg("values").noconvert())
      .def("add_input", &add_input, nb::kw_only(), arg("target"), arg("dtype"))
      .def("add_output", &TensorProgram::add_output, nb::kw_only(), arg("source"))
      .def("add_copy", &add_copy, nb::kw_only(), arg("source"), arg("target"))
      .def("add_reindex", &add_reindex, nb::kw_only(), arg("source"), arg("target"), arg("index"))
      .def("add_fill", &add_fill, nb::kw_only(), arg("target"), arg("value"))
      .def("workspace_bytes", &TensorProgram::workspace_bytes, nb::kw_only(), arg("samples") = 1,
           arg("threads"))
      .def_prop_ro("has_pairs", &TensorProgram::has_pairs)
      .def("generate", &TensorProgram::generate, nb::kw_only(), arg("max_bytes"),
           nb::call_guard<nb::gil_scoped_release>())
      .def("run", &run, nb::kw_only(), arg("inputs"), arg("outputs"), arg("samples") = 1,
           arg("threads"), arg("timed"));
  bind_tensor_axes(m, program);
  bind_tensor_images(program);
  bind_tensor_maps(m, program);
  bind_tensor_products(program);
  bind_int8(program);
}

}  // namespace skinny
