#include "tensor_program.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string>

#include "require.h"
#include "team.h"

namespace skinny {
namespace {

// A contiguous array of the tensor's shape.
Tensor contiguous(Tensor tensor) {
  size_t stride = 1;
  for (size_t axis = tensor.rank; axis-- > 0; stride *= tensor.shape[axis])
    tensor.strides[axis] = stride;
  return tensor;
}

// Stores integers as 32-bit ones. Larger ones become the largest: they can only be indices, or entries
// of which a view takes none, and no table has as many rows.
template <class T>
void load_integers(const Tensor& target, const T* from, const ThreadContext& context) {
  Axes axes({contiguous(target), target});
  size_t outer = axes.rank ? axes.rank - 1 : 0, inner = axes.inner(), stride = axes.inner_stride(1);
  auto [begin, end] = context.partition(axes.rows(outer));
  if (begin == end) return;
  Walk walk(axes, outer, begin);
  for (size_t row = begin; row < end; ++row, walk.next())
    for (size_t i = 0; i < inner; ++i) {
      auto value = static_cast<int64_t>(from[walk[0] + i]);
      auto stored = static_cast<int32_t>(std::clamp<int64_t>(value, INT32_MIN, INT32_MAX));
      std::memcpy(target.to(context) + walk[1] + i * stride, &stored, sizeof stored);
    }
}

size_t bytes_of(CellType type) {
  if (type == CellType::int64) return 8;
  return type == CellType::uint8 || type == CellType::boolean ? 1 : 4;
}

void raise(const Mistake& mistake) {
  std::string beyond;
  if (mistake.index == INT32_MAX) beyond = " or more";
  if (mistake.index == INT32_MIN) beyond = " or less";
  throw std::out_of_range("index " + std::to_string(mistake.index) + beyond +
                          " is out of range for " + std::to_string(mistake.limit) + " rows");
}

}  // namespace

TensorProgram::TensorProgram(size_t cells, double grain) : cells_(cells), grain_(grain) {
  require(cells <= max_offset, "the arena is too large to address");
  require(grain >= 0, "a grain must not be negative");
}

size_t TensorProgram::add_constant(const float* values, size_t size,
                                   std::shared_ptr<const void> owner) {
  constants_.push_back({values, size, std::move(owner)});
  return constants_.size();
}

Tensor TensorProgram::checked(Tensor tensor) const {
  require(tensor.rank <= max_rank, "a tensor has at most 8 axes");
  require(tensor.storage <= constants_.size(), "a tensor's storage must exist");
  size_t size = cells_;
  if (tensor.storage) {
    tensor.constant = constants_[tensor.storage - 1].values;
    size = constants_[tensor.storage - 1].size;
  }
  require(tensor.offset < size, "a tensor must lie in its storage");
  size_t last = tensor.offset, elements = 1;
  for (size_t axis = 0; axis < tensor.rank; ++axis) {
    size_t side = tensor.shape[axis], stride = tensor.strides[axis];
    require(side > 0, "a tensor must not be empty");
    require(side <= max_offset && stride <= max_offset, "a tensor is too large to address");
    last += (side - 1) * stride;
    require(last < size, "a tensor must lie in its storage");
    elements *= side;
    require(elements <= max_offset, "a tensor is too large to address");
  }
  return tensor;
}

Tensor TensorProgram::source(const Tensor& tensor) const { return checked(tensor); }

Tensor TensorProgram::target(const Tensor& tensor) const {
  Tensor found = checked(tensor);
  require(found.storage == 0, "an output must lie in the arena");
  require(distinct(found), "an output's elements must not overlap");
  return found;
}

void TensorProgram::add_input(const Tensor& tensor, CellType type) {
  Tensor found = target(tensor);
  inputs_.push_back({found, type, Copy(contiguous(found), found)});
}

void TensorProgram::add_output(const Tensor& tensor) {
  Tensor found = source(tensor);
  outputs_.push_back({found, Copy(found, contiguous(found))});
}

void TensorProgram::add_step(std::shared_ptr<const Step> step) {
  scratch_ = std::max(scratch_, round_up(step->scratch(1), 16));
  double work = step->work();
  steps_.push_back({std::move(step), work});
}

// How many threads each input, step and output is worth. All are done by one where a team would
// save less than it takes to wake its threads.
std::vector<size_t> TensorProgram::thread_counts(size_t threads) const {
  std::vector<size_t> counts;
  double saved = 0, most = static_cast<double>(threads);
  auto add = [&](double work) {
    auto worth = static_cast<size_t>(work < most * grain_ ? work / grain_ : most);
    counts.push_back(std::max<size_t>(1, worth));
    saved += work - work / static_cast<double>(counts.back());
  };
  for (const Input& input : inputs_) add(input.copy.work());
  for (const Task& task : steps_) add(task.work);
  for (const Output& output : outputs_) add(output.copy.work());
  if (saved < 4 * grain_) std::fill(counts.begin(), counts.end(), 1);
  return counts;
}

std::vector<size_t> TensorProgram::generate(size_t most) const {
  // Code that runs for a few vectors is not faster than a kernel if it comes from memory: it is made
  // as long as all code fits a part of a usual last-level cache, the smallest first.
  constexpr size_t cached_code = 12 << 20;
  std::vector<std::shared_ptr<const Step>> often, rarely;
  for (const Task& task : steps_)
    (task.step->code_of_few_vectors() ? rarely : often).push_back(task.step);
  std::vector<size_t> made = generate_code(often, 1, most);
  size_t total = std::accumulate(made.begin(), made.end(), size_t{0});
  std::stable_sort(rarely.begin(), rarely.end(), [](const auto& a, const auto& b) {
    return a->code_of_few_vectors() < b->code_of_few_vectors();
  });
  jit::CodeWriter writer;
  for (const auto& step : rarely) {
    if (total + step->code_of_few_vectors() > std::min(most, cached_code)) break;
    step->generate(1, most - total, writer);
    total += step->code_bytes();
  }
  writer.finish();
  std::vector<size_t> bytes;
  for (const Task& task : steps_) bytes.push_back(task.step->code_bytes());
  return bytes;
}

std::vector<bool> TensorProgram::has_pairs() const {
  std::vector<bool> found;
  for (const Task& task : steps_) found.push_back(task.step->has_pairs());
  return found;
}

size_t TensorProgram::workspace_bytes(size_t samples, size_t threads) const {
  size_t arenas = samples < 2 ? 1 : std::min(samples, threads);
  return (arenas * round_up(cells_ + arena_slack, 16) + threads * scratch_) * sizeof(float);
}

void TensorProgram::load(const Input& input, const void* from, const ThreadContext& context) const {
  switch (input.type) {
    case CellType::float32:
      return input.copy.run(static_cast<const float*>(from), input.target.to(context), context.rank,
                            context.size);
    case CellType::int64:
      return load_integers(input.target, static_cast<const int64_t*>(from), context);
    case CellType::int32:
      return load_integers(input.target, static_cast<const int32_t*>(from), context);
    case CellType::uint8:
    case CellType::boolean:
      return load_integers(input.target, static_cast<const uint8_t*>(from), context);
  }
}

void TensorProgram::run_task(size_t i, const std::vector<const void*>& inputs,
                             const std::vector<float*>& outputs, size_t sample,
                             const ThreadContext& context) const {
  size_t first = inputs_.size(), last = first + steps_.size();
  if (i < first) {
    auto from = static_cast<const uint8_t*>(inputs[i]);
    size_t bytes = inputs_[i].target.size() * bytes_of(inputs_[i].type);
    load(inputs_[i], from + sample * bytes, context);
  } else if (i < last) {
    steps_[i - first].step->run(context);
  } else {
    const Output& output = outputs_[i - last];
    output.copy.run(output.source.from(context), outputs[i - last] + sample * output.source.size(),
                    context.rank, context.size);
  }
}

std::vector<double> TensorProgram::run(const std::vector<const void*>& inputs,
                                       const std::vector<float*>& outputs, size_t samples,
                                       size_t threads, bool timed) const {
  size_t first = inputs_.size(), last = first + steps_.size(), count = last + outputs_.size();
  std::vector<size_t> counts = thread_counts(threads);
  size_t most = count ? *std::max_element(counts.begin(), counts.end()) : 1;
  if (samples > 1) most = std::min(threads, samples);
  Team team(most);
  size_t apart = samples < team.size() || samples < 2 ? 0 : samples - samples % team.size();
  size_t arena = round_up(cells_ + arena_slack, 16), own = arena + scratch_;
  auto workspace = workspaces_.acquire(arena + scratch_ * team.size() +
                                       (apart ? (team.size() - 1) * arena : 0));
  std::vector<double> seconds(timed ? steps_.size() : 0);
  Mistake mistake;
  auto run_timed = [&](size_t i, bool first_thread, const auto& task) {
    double start = timed && first_thread ? now() : 0;
    task();
    if (timed && first_thread && i >= first && i < last) seconds[i - first] += now() - start;
  };
  if (apart)
    team.run(team.size(), [&](size_t rank) {
      float* data = workspace->data + rank * own;
      ThreadContext context{data, 1, data + arena, 0, 1, &mistake};
      auto [begin, end] = partition(apart, rank, team.size());
      for (size_t sample = begin; sample < end; ++sample)
        for (size_t i = 0; i < count; ++i)
          run_timed(i, rank == 0, [&] { run_task(i, inputs, outputs, sample, context); });
    });
  for (size_t sample = apart; sample < samples; ++sample)
    for (size_t i = 0; i < count; ++i) {
      size_t size = std::min(counts[i], team.size());
      run_timed(i, true, [&] {
        team.run(size, [&](size_t rank) {
          float* scratch = workspace->data + arena + rank * scratch_;
          run_task(i, inputs, outputs, sample,
                   {workspace->data, 1, scratch, rank, size, &mistake});
        });
      });
    }
  workspaces_.recycle(std::move(workspace));
  if (mistake.found) raise(mistake);
  return seconds;
}

}  // namespace skinny
