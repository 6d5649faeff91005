// A program on strided tensors: the native segment of a graph whose shapes are all known.
#pragma once

#include <memory>
#include <vector>

#include "tensor_steps.h"
#include "workspace.h"

namespace skinny {

enum class CellType { float32, int64, int32, uint8, boolean };

// Values lie in one arena of cells of four bytes, floats or 32-bit integers. A run copies its inputs
// into the arena, does the steps in order, and copies its outputs out.
class TensorProgram {
 public:
  struct Input {
    Tensor target;
    CellType type;
    Copy copy;  // of a contiguous array
  };
  struct Output {
    Tensor source;
    Copy copy;
  };

  // A thread takes part in a step when it has at least `grain` nanoseconds of its work to do.
  TensorProgram(size_t cells, double grain);

  // Returns the constant's storage number. `owner` keeps the values alive.
  size_t add_constant(const float* values, size_t size, std::shared_ptr<const void> owner);
  void add_input(const Tensor& target, CellType type);
  void add_output(const Tensor& source);
  template <class S>
  void add(S step) {
    add_step(std::make_shared<const S>(std::move(step)));
  }
  // The tensor, checked and with its storage resolved; an input, or an output of a step. Throw
  // std::invalid_argument for one that does not lie in its storage.
  Tensor source(const Tensor& tensor) const;
  Tensor target(const Tensor& tensor) const;

  size_t cells() const { return cells_; }
  const std::vector<Input>& inputs() const { return inputs_; }
  const std::vector<Output>& outputs() const { return outputs_; }
  size_t workspace_bytes(size_t samples, size_t threads) const;
  // As Engine::generate.
  std::vector<size_t> generate(size_t most) const;
  std::vector<bool> has_pairs() const;  // of each step, once code was asked for
  // Runs the program for each of `samples`, whose inputs and outputs follow each other. As many as
  // divide evenly are each computed by one thread, from the first step to the last, so that values
  // stay in its caches; the others by all threads together, step by step. Returns the seconds of
  // each step, in the first thread, if `timed`. Throws std::out_of_range for an input with a wrong
  // index.
  std::vector<double> run(const std::vector<const void*>& inputs,
                          const std::vector<float*>& outputs, size_t samples, size_t threads,
                          bool timed) const;

 private:
  struct Constant {
    const float* values;
    size_t size;
    std::shared_ptr<const void> owner;
  };
  void add_step(std::shared_ptr<const Step> step);
  Tensor checked(Tensor tensor) const;
  std::vector<size_t> thread_counts(size_t threads) const;
  void load(const Input& input, const void* from, const ThreadContext& context) const;
  // Input, step or output number i.
  void run_task(size_t i, const std::vector<const void*>& inputs,
                const std::vector<float*>& outputs, size_t sample,
                const ThreadContext& context) const;

  const size_t cells_;
  const double grain_;
  size_t scratch_ = 16;  // floats, of each thread
  std::vector<Constant> constants_;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  struct Task {
    std::shared_ptr<const Step> step;
    double work;
  };
  std::vector<Task> steps_;
  mutable WorkspacePool workspaces_;
};

}  // namespace skinny
