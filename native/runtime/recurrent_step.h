// A recurrent layer in one direction, after the product of its input.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "linear_weights.h"
#include "tensor.h"

namespace skinny {

// With `c` it is an LSTM, without a GRU (recurrent.h). Time runs one way or the other; threads divide
// the samples.
class Recurrent : public Step {
 public:
  struct State {
    Tensor first, last;  // [batch, size]
  };
  // projected: [length, batch, gates * size]; target: [length, batch, size], every h. weights and
  // bias: of the state's product. Throws std::invalid_argument where sizes do not agree, or the
  // entries of a vector are not neighbours.
  Recurrent(const Tensor& projected, const State& h, const std::optional<State>& c,
            const Tensor& target, std::shared_ptr<const LinearWeights> weights,
            std::vector<float> bias, bool reverse);
  void run(const ThreadContext& context) const override;
  size_t scratch(size_t n) const override;
  double work() const override;

 private:
  void run_sample(const ThreadContext& context, size_t sample) const;

  Tensor projected_, target_;
  State h_;
  std::optional<State> c_;
  std::shared_ptr<const LinearWeights> weights_;
  std::vector<float> bias_;
  bool reverse_;
};

}  // namespace skinny
