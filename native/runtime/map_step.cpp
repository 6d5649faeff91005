#include "map_step.h"

#include <algorithm>
#include <cstring>

namespace skinny {
namespace {

constexpr size_t block_floats = 512;  // of a register: a dozen registers fit the first-level cache
constexpr size_t long_row = 96;       // floats that make a block of their own

// About how long an instruction takes for one element.
double cost(Opcode op) {
  switch (op) {
    case Opcode::pow:
      return 4;
    case Opcode::exp: case Opcode::expm1: case Opcode::log: case Opcode::log1p: case Opcode::erf:
    case Opcode::sin: case Opcode::cos: case Opcode::elu: case Opcode::sigmoid: case Opcode::tanh:
    case Opcode::silu: case Opcode::gelu: case Opcode::gelu_tanh:
      return 0.8;
    case Opcode::softplus: case Opcode::mish:
      return 2;
    default:
      return 0.1;
  }
}

std::vector<Tensor> broadcast_all(const std::vector<Tensor>& sources, const Tensor& target) {
  std::vector<Tensor> all{target};
  for (const Tensor& source : sources) all.push_back(source.broadcast(target));
  return all;
}

}  // namespace

// Where a block lies: from column `column` of row `row` of the axes that it covers.
struct Map::Block {
  size_t row, column, rows, columns;
  size_t size() const { return rows * columns; }
};

Map::Map(const std::vector<Tensor>& sources, const Tensor& target, std::vector<Instruction> code,
         std::vector<float> numbers)
    : tensors_(broadcast_all(sources, target)),
      code_(std::move(code)),
      numbers_(std::move(numbers)),
      axes_(tensors_) {
  registers_ = sources.size() + numbers_.size();
  for (const Instruction& one : code_) registers_ = std::max(registers_, size_t{one.to} + 1);
  size_t inner = axes_.inner();
  bool joined = axes_.rank >= 2 && inner < long_row;
  outer_ = axes_.rank - std::min<size_t>(axes_.rank, joined ? 2 : 1);
  columns_ = std::min(inner, block_floats);
  rows_ = joined ? std::min(block_floats / inner, axes_.shape[outer_]) : 1;
}

bool Map::contiguous(size_t tensor) const {
  return axes_.inner_stride(tensor) == 1 &&
         (rows_ == 1 || axes_.strides[tensor][outer_] == axes_.inner());
}

void Map::gather(size_t tensor, const float* from, const Block& block, float* to) const {
  size_t stride = axes_.inner_stride(tensor);
  size_t row_stride = rows_ == 1 ? 0 : axes_.strides[tensor][outer_];
  for (size_t r = 0; r < block.rows; ++r, from += row_stride, to += block.columns) {
    if (stride == 1)
      std::memcpy(to, from, block.columns * sizeof(float));
    else if (stride == 0)
      std::fill(to, to + block.columns, *from);
    else
      for (size_t c = 0; c < block.columns; ++c) to[c] = from[c * stride];
  }
}

void Map::scatter(const float* from, const Block& block, float* to) const {
  size_t stride = axes_.inner_stride(0), row_stride = rows_ == 1 ? 0 : axes_.strides[0][outer_];
  for (size_t r = 0; r < block.rows; ++r, to += row_stride, from += block.columns)
    for (size_t c = 0; c < block.columns; ++c) to[c * stride] = from[c];
}

void Map::run(const ThreadContext& context) const {
  size_t side = rows_ == 1 ? 1 : axes_.shape[outer_], inner = axes_.inner();
  size_t down = divide_up(side, rows_), across = divide_up(inner, columns_);
  auto [begin, end] = context.partition(axes_.rows(outer_) * down * across);
  if (begin == end) return;

  size_t sources = tensors_.size() - 1;
  float* registers[max_registers];
  const float* held[Walk::max_tensors] = {};  // what a register was last gathered from
  size_t held_size[Walk::max_tensors] = {};
  for (size_t i = 0; i < registers_; ++i) registers[i] = context.scratch + i * block_floats;
  for (size_t i = 0; i < numbers_.size(); ++i)
    std::fill_n(registers[sources + i], std::min(block_floats, rows_ * columns_), numbers_[i]);
  float* result = context.scratch + registers_ * block_floats;
  bool direct = contiguous(0);

  Walk walk(axes_, outer_, begin / (down * across));
  for (size_t item = begin; item < end; ++item) {
    size_t at = item % (down * across);
    if (at == 0 && item > begin) walk.next();
    Block block{at / across * rows_, at % across * columns_, 0, 0};
    block.rows = std::min(rows_, side - block.row);
    block.columns = std::min(columns_, inner - block.column);
    auto offset = [&](size_t tensor) {
      size_t row_stride = rows_ == 1 ? 0 : axes_.strides[tensor][outer_];
      return walk[tensor] + block.row * row_stride + block.column * axes_.inner_stride(tensor);
    };
    for (size_t i = 0; i < sources; ++i) {
      const float* from = tensors_[i + 1].from(context) + offset(i + 1);
      float* buffer = context.scratch + i * block_floats;
      if (contiguous(i + 1)) {
        registers[i] = const_cast<float*>(from);  // instructions write temporaries only
      } else if (held[i] != from || held_size[i] != block.size()) {
        gather(i + 1, from, block, buffer);
        held[i] = from;
        held_size[i] = block.size();
      }
    }
    float* to = tensors_[0].to(context) + offset(0);
    SKINNY_CHOOSE(map).run(code_.data(), code_.size(), registers, direct ? to : result,
                           block.size());
    if (!direct) scatter(result, block, to);
  }
}

size_t Map::scratch(size_t) const { return (registers_ + 1) * block_floats; }

double Map::work() const {
  double each = ns_per_float * static_cast<double>(tensors_.size());
  for (const Instruction& one : code_) each += cost(one.op);
  return each * static_cast<double>(tensors_[0].size());
}

}  // namespace skinny
