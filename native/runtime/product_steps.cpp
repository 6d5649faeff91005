#include "product_steps.h"

#include <algorithm>

#include "attention.h"
#include "matmul.h"
#include "require.h"

namespace skinny {
namespace {

constexpr size_t block_rows = 96;  // of a product, for which a panel is copied once
// A dense product reads its operands from registers for several multiplications.
constexpr double dense_speedup = 3;

// The size, or the stride, of a tensor's last axis (0) or the one before it (1).
size_t side(const Tensor& t, size_t from_last) { return t.shape[t.rank - 1 - from_last]; }
size_t stride(const Tensor& t, size_t from_last) { return t.strides[t.rank - 1 - from_last]; }

Axes leading_axes(std::vector<Tensor> tensors) {
  for (Tensor& tensor : tensors) {
    require(tensor.rank >= 2, "the operands of a product have two axes at least");
    tensor.rank -= 2;
  }
  for (const Tensor& tensor : tensors)
    require(tensor.rank == tensors[0].rank &&
                std::equal(tensor.shape.begin(), tensor.shape.begin() + tensor.rank,
                           tensors[0].shape.begin()),
            "the operands of a product must have the leading axes of its result");
  return Axes(tensors);
}

bool neighbours(const Tensor& t) { return side(t, 0) == 1 || stride(t, 0) == 1; }

}  // namespace

Matmul::Matmul(const Tensor& a, const Tensor& b, const Tensor& target, float scale)
    : a_(a), b_(b), target_(target), leading_(leading_axes({target, a, b})), scale_(scale) {
  require(side(a, 1) == side(target, 1) && side(b, 0) == side(target, 0) && side(a, 0) == side(b, 1),
          "the sizes of a matrix product must agree");
  require(neighbours(b) && neighbours(target),
          "the columns of a matrix product and of its right operand must be neighbours");
}

void Matmul::run(const ThreadContext& context) const {
  const MatmulKernels& kernels = SKINNY_CHOOSE(matmul);
  size_t rows = side(target_, 1), columns = side(target_, 0);
  size_t blocks = divide_up(rows, block_rows), panels = divide_up(columns, kernels.panel);
  auto [begin, end] = context.partition(leading_.rows(leading_.rank) * blocks * panels);
  for (size_t item = begin; item < end; ++item) {
    Walk walk(leading_, leading_.rank, item / (blocks * panels));
    size_t row = item / panels % blocks * block_rows, column = item % panels * kernels.panel;
    MatrixProduct product{a_.from(context) + walk[1] + row * stride(a_, 1),
                          stride(a_, 1),
                          stride(a_, 0),
                          b_.from(context) + walk[2] + column,
                          stride(b_, 1),
                          target_.to(context) + walk[0] + row * stride(target_, 1) + column,
                          stride(target_, 1),
                          std::min(block_rows, rows - row),
                          std::min(kernels.panel, columns - column),
                          side(a_, 0),
                          scale_};
    kernels.multiply(product, context.scratch);
  }
}

size_t Matmul::scratch(size_t) const { return SKINNY_CHOOSE(matmul).scratch; }

double Matmul::work() const {
  return static_cast<double>(target_.size()) * static_cast<double>(side(a_, 0)) *
         ns_per_multiplication / dense_speedup;
}

Attention::Attention(const Tensor& q, const Tensor& k, const Tensor& v,
                     const std::optional<Tensor>& mask, const Tensor& target,
                     const Options& options)
    : q_(q),
      k_(k),
      v_(v),
      target_(target),
      mask_(mask),
      leading_(leading_axes({target, q, k, v, mask.value_or(q)})),
      options_(options) {
  require(side(q, 1) == side(target, 1) && side(q, 0) == side(k, 0) && side(k, 1) == side(v, 1) &&
              side(v, 0) == side(target, 0) &&
              (!mask || (side(*mask, 1) == side(q, 1) && side(*mask, 0) == side(k, 1))),
          "the sizes of queries, keys, values, mask and result must agree");
}

void Attention::run(const ThreadContext& context) const {
  const AttentionKernels& kernels = SKINNY_CHOOSE(attention);
  size_t heads = leading_.rows(leading_.rank), queries = side(q_, 1);
  size_t vectors = divide_up(queries, kernels.lanes), panels = divide_up(vectors, kernels.vectors);
  AttentionHead head{};
  head.q_query = stride(q_, 1), head.q_feature = stride(q_, 0);
  head.k_key = stride(k_, 1), head.k_feature = stride(k_, 0);
  head.v_key = stride(v_, 1), head.v_feature = stride(v_, 0);
  if (mask_) head.mask_query = stride(*mask_, 1), head.mask_key = stride(*mask_, 0);
  head.out_query = stride(target_, 1), head.out_feature = stride(target_, 0);
  head.queries = queries, head.keys = side(k_, 1);
  head.features = side(q_, 0), head.value_features = side(v_, 0);
  head.scale = options_.scale;
  head.mask_selects = options_.mask_selects, head.causal = options_.causal;
  // Not ranges: of causal attention, later queries see more keys.
  for (size_t item = context.rank; item < heads * panels; item += context.size) {
    Walk walk(leading_, leading_.rank, item / panels);
    head.out = target_.to(context) + walk[0];
    head.q = q_.from(context) + walk[1];
    head.k = k_.from(context) + walk[2];
    head.v = v_.from(context) + walk[3];
    head.mask = mask_ ? mask_->from(context) + walk[4] : nullptr;
    auto [begin, end] = partition(vectors, item % panels, panels);
    size_t first = begin * kernels.lanes;
    kernels.attend(head, first, std::min(end * kernels.lanes, queries) - first, context.scratch);
  }
}

size_t Attention::scratch(size_t) const {
  return SKINNY_CHOOSE(attention).scratch(side(q_, 0), side(v_, 0));
}

double Attention::work() const {
  auto positions = static_cast<double>(leading_.rows(leading_.rank) * side(q_, 1));
  auto features = static_cast<double>(side(q_, 0) + side(v_, 0));
  auto keys = static_cast<double>(side(k_, 1)) / (options_.causal ? 2 : 1);
  return positions * keys * (features * ns_per_multiplication / dense_speedup + ns_per_float);
}

}  // namespace skinny
