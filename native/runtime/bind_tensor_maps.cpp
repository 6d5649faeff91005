// Elementwise code in a tensor program.
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>

#include "bind_tensors.h"
#include "map_step.h"

namespace nb = nanobind;

namespace skinny {
namespace {

constexpr size_t max_sources = Walk::max_tensors - 1;

size_t argument_count(Opcode op) {
  switch (op) {
    case Opcode::clamp: case Opcode::softplus: case Opcode::where:
      return 3;
    case Opcode::add: case Opcode::sub: case Opcode::mul: case Opcode::div: case Opcode::pow:
    case Opcode::minimum: case Opcode::maximum: case Opcode::leaky_relu: case Opcode::elu:
    case Opcode::prelu: case Opcode::eq: case Opcode::ne: case Opcode::lt: case Opcode::le:
    case Opcode::gt: case Opcode::ge: case Opcode::logical_and: case Opcode::logical_or:
    case Opcode::logical_xor:
      return 2;
    default:
      return 1;
  }
}

void check_broadcast(const Tensor& source, const Tensor& target) {
  bool fits = source.rank <= target.rank;
  for (size_t axis = 0; fits && axis < source.rank; ++axis) {
    size_t side = target.shape[target.rank - source.rank + axis];
    fits = source.shape[axis] == side || source.shape[axis] == 1;
  }
  require(fits, "a source must broadcast to the target's shape");
}

using Line = std::tuple<Opcode, size_t, size_t, size_t, size_t>;

// The instructions, if each reads registers that hold something and writes a temporary.
std::vector<Instruction> checked(const std::vector<Line>& code, size_t given) {
  require(!code.empty(), "elementwise code has at least one instruction");
  std::vector<bool> written(Map::max_registers, false);
  std::fill_n(written.begin(), given, true);
  std::vector<Instruction> instructions;
  for (auto [op, to, a, b, c] : code) {
    size_t arguments[] = {a, b, c};
    for (size_t i = 0; i < argument_count(op); ++i)
      require(arguments[i] < Map::max_registers && written[arguments[i]],
              "an instruction must read a register that was written");
    for (size_t i = argument_count(op); i < 3; ++i) arguments[i] = a;
    require(to >= given && to < Map::max_registers, "an instruction must write a temporary");
    written[to] = true;
    auto small = [](size_t index) { return static_cast<uint8_t>(index); };
    instructions.push_back(
        {op, small(to), small(arguments[0]), small(arguments[1]), small(arguments[2])});
  }
  return instructions;
}

void add_map(TensorProgram& p, const std::vector<Tensor>& sources, const Tensor& target,
             const std::vector<Line>& code, const std::vector<float>& numbers) {
  Tensor to = p.target(target);
  require(sources.size() <= max_sources && sources.size() + numbers.size() < Map::max_registers,
          "elementwise code has at most 23 sources and 64 registers");
  std::vector<Tensor> from;
  for (const Tensor& source : sources) {
    from.push_back(p.source(source));
    check_broadcast(from.back(), to);
    check_apart(from.back(), to, true);
  }
  p.add(Map(from, to, checked(code, sources.size() + numbers.size()), numbers));
}

void bind_opcodes(nb::module_& m) {
  constexpr const char* names[] = {
      "add", "sub", "mul", "div", "pow", "minimum", "maximum",
      "neg", "abs", "sqrt", "rsqrt", "reciprocal", "exp", "expm1", "log", "log1p", "erf", "sin",
      "cos", "floor", "ceil", "round", "trunc", "sign",
      "clamp", "leaky_relu", "elu", "prelu", "softplus", "sigmoid", "tanh", "silu", "gelu",
      "gelu_tanh", "hardswish", "hardsigmoid", "mish",
      "eq", "ne", "lt", "le", "gt", "ge", "logical_not", "logical_and", "logical_or",
      "logical_xor", "where", "from_int"};
  static_assert(std::size(names) == opcode_count);
  nb::enum_<Opcode> opcodes(m, "Opcode");
  for (size_t i = 0; i < opcode_count; ++i) opcodes.value(names[i], static_cast<Opcode>(i));
}

}  // namespace

void bind_tensor_maps(nb::module_& m, TensorBinding& program) {
  bind_opcodes(m);
  m.attr("MAX_MAP_REGISTERS") = Map::max_registers;
  m.attr("MAX_MAP_SOURCES") = max_sources;
  program.def("add_map", &add_map, nb::kw_only(), nb::arg("sources"), nb::arg("target"),
              nb::arg("code"), nb::arg("numbers"));
}

}  // namespace skinny
