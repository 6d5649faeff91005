// Normalisation, softmax, reductions and gathered rows in a tensor program.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>

#include <optional>

#include "axis_steps.h"
#include "bind_tensors.h"

namespace nb = nanobind;

namespace skinny {
namespace {

void check_axes(const Tensor& source) {
  require(source.rank == 3, "a step along an axis needs a source [outer, axis, inner]");
}

std::vector<float> entries(const std::optional<Floats>& values, size_t axis) {
  if (!values) return {};
  require(values->size() == axis, "a norm's weight and bias have one value for each entry");
  return copy(*values);
}

void add_norm(TensorProgram& p, const Tensor& source, const Tensor& target,
              const std::optional<Floats>& weight, const std::optional<Floats>& bias, float eps,
              bool subtract_mean) {
  Tensor from = p.source(source), to = p.target(target);
  check_axes(from);
  check_same_shape(from, to);
  check_apart(from, to, true);
  size_t axis = from.shape[1];
  p.add(Norm(from, to, entries(weight, axis), entries(bias, axis), eps, subtract_mean));
}

void add_softmax(TensorProgram& p, const Tensor& source, const Tensor& target, bool log) {
  Tensor from = p.source(source), to = p.target(target);
  check_axes(from);
  check_same_shape(from, to);
  check_apart(from, to, true);
  p.add(TensorSoftmax(from, to, log));
}

void add_reduce(TensorProgram& p, ReduceKind kind, const Tensor& source, const Tensor& target) {
  Tensor from = p.source(source), to = p.target(target);
  check_axes(from);
  check_apart(from, to);
  require(to.rank == 2 && to.shape[0] == from.shape[0] && to.shape[1] == from.shape[2],
          "a reduction's target is [outer, inner]");
  p.add(Reduce(kind, from, to));
}

void check_gathered(const Tensor& at, const Tensor& to, bool is_table, size_t columns) {
  check_apart(at, to);
  bool fits = is_table && to.rank == at.rank + 1 && to.shape[at.rank] == columns;
  for (size_t axis = 0; fits && axis < at.rank; ++axis) fits = to.shape[axis] == at.shape[axis];
  require(fits, "gathered rows need a table [rows, columns] and a target [index..., columns]");
}

void add_gather(TensorProgram& p, const Tensor& table, const Tensor& index, const Tensor& target) {
  Tensor rows = p.source(table), at = p.source(index), to = p.target(target);
  check_apart(rows, to);
  check_gathered(at, to, rows.rank == 2, rows.shape[1]);
  p.add(Gather(rows, at, to));
}

void add_gather_int8(TensorProgram& p, std::shared_ptr<Int8Table> table, const Tensor& index,
                     const Tensor& target) {
  Tensor at = p.source(index), to = p.target(target);
  check_gathered(at, to, true, table->columns());
  p.add(Gather(std::move(table), at, to));
}

}  // namespace

void bind_tensor_axes(nb::module_& m, TensorBinding& program) {
  using nb::arg;
  nb::enum_<ReduceKind>(m, "ReduceKind")
      .value("sum", ReduceKind::sum)
      .value("mean", ReduceKind::mean)
      .value("max", ReduceKind::max)
      .value("min", ReduceKind::min);
  const auto source = arg("source"), target = arg("target");
  program
      .def("add_norm", &add_norm, nb::kw_only(), source, target, arg("weight").none(),
           arg("bias").none(), arg("eps"), arg("subtract_mean"))
      .def("add_softmax", &add_softmax, nb::kw_only(), source, target, arg("log"))
      .def("add_reduce", &add_reduce, nb::kw_only(), arg("kind"), source, target)
      .def("add_gather", &add_gather, nb::kw_only(), arg("table"), arg("index"), target)
      .def("add_gather_int8", &add_gather_int8, nb::kw_only(), arg("table"), arg("index"), target);
}

}  // namespace skinny
