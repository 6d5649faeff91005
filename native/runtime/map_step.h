// The step that does elementwise code (map.h), block by block.
#pragma once

#include "map.h"
#include "tensor.h"

namespace skinny {

// target = code(sources), element by element. Registers are the sources, which are broadcast to the
// target's shape, then the numbers, then temporaries. A source may be the target itself.
class Map : public Step {
 public:
  static constexpr size_t max_registers = 64;
  Map(const std::vector<Tensor>& sources, const Tensor& target, std::vector<Instruction> code,
      std::vector<float> numbers);
  void run(const ThreadContext& context) const override;
  size_t scratch(size_t n) const override;
  double work() const override;

 private:
  struct Block;
  bool contiguous(size_t tensor) const;
  void gather(size_t tensor, const float* from, const Block& block, float* to) const;
  void scatter(const float* from, const Block& block, float* to) const;

  std::vector<Tensor> tensors_;  // the target, then the sources
  std::vector<Instruction> code_;
  std::vector<float> numbers_;
  size_t registers_;
  Axes axes_;
  // A block is up to rows_ rows of up to columns_ entries of the innermost axis. Where that axis is
  // long, a block is a piece of one row; `outer_` axes are left to be walked.
  size_t outer_, rows_, columns_;
};

}  // namespace skinny
