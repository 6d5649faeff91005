// A planned network: programs of steps, and how a batch is divided among them.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "steps.h"
#include "workspace.h"

namespace skinny {

// The steps from one value to another, for images interleaved n at a time.
struct Program {
  View in, out;  // `out` is compact
  bool read_once = false;  // only the first step reads `in`
  size_t positions = 0;  // of the arena
  std::vector<std::shared_ptr<const Step>> steps;

  size_t scratch(size_t n) const;
  // Whether the first step may read the caller's image, and the last one write the caller's result.
  bool reads_image() const { return read_once && !steps.empty() && steps.front()->reads(in); }
  bool writes_result() const { return !steps.empty() && steps.back()->writes(out); }
};

// The caller's images: bytes or floats, [image][channel][row][column].
struct Images {
  const uint8_t* bytes = nullptr;  // which become value * scale + shift, by channel
  const float* floats = nullptr;
  std::vector<float> scale, shift;
  size_t size = 0;  // of one image
};

// The batch mode a program is planned for.
enum class Mode : size_t { single, prefix, interleaved, tail };
constexpr size_t mode_count = 4;

// The network: a head that runs on one image (`single`) or on a vector of images (`interleaved`),
// and a tail of fully connected layers that runs on all images of a batch at once. Where the first
// layers have values too large for vectors, they are a program of their own, `prefix`, which runs on
// each image of a vector; `interleaved` begins with its result.
class Engine {
 public:
  Program& program(Mode mode) { return programs_[static_cast<size_t>(mode)]; }
  const Program& program(Mode mode) const { return programs_[static_cast<size_t>(mode)]; }

  // The values of a vector of images that take more floats than this are fetched from memory by
  // every layer. Those of one image mostly stay in the third-level cache.
  static constexpr size_t most_cached = size_t{1} << 24;

  static size_t lanes();
  // y: [images][outputs]. Adds each step's seconds to `seconds[mode]` unless it is null.
  void run(const Images& x, size_t images, float* y, size_t threads,
           std::vector<double>* seconds) const;
  // How many images of a batch run one by one; the others run in vectors, if there is a program.
  size_t singles(size_t images) const;
  // The memory that `run` takes for the values of a batch.
  size_t workspace_bytes(size_t images, size_t threads) const;
  // Makes code for the steps of a mode, of at most `most` bytes together, unless that was done
  // before; others may run the engine meanwhile. Returns the bytes of each step's code.
  std::vector<size_t> generate(Mode mode, size_t most) const;

 private:
  struct Layout;
  bool runs_vectors() const;
  bool has_prefix() const { return program(Mode::prefix).positions != 0; }
  bool has_tail() const {
    const Program& tail = program(Mode::tail);
    return !tail.steps.empty() || tail.in.offset != tail.out.offset ||
           tail.in.size() != tail.out.size();
  }
  size_t vector_count(size_t images) const;
  size_t single_count(size_t images) const;
  void run_chunk(const Images& x, size_t images, float* y, size_t threads,
                 std::vector<double>* seconds) const;

  std::array<Program, mode_count> programs_;
  mutable WorkspacePool workspaces_;
};

}  // namespace skinny
