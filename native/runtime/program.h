// A planned network: programs of steps, and how a batch is divided among them.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "steps.h"

namespace skinny {

// The steps from one value to another, for images interleaved n at a time.
struct Program {
  View in, out;  // `out` is compact
  size_t positions = 0;  // of the arena
  std::vector<std::shared_ptr<const Step>> steps;

  size_t scratch(size_t n) const;
};

// Images as they come: bytes or floats, [image][channel][row][column].
struct Images {
  const uint8_t* bytes = nullptr;  // with value * scale + shift of its channel
  const float* floats = nullptr;
  std::vector<float> scale, shift;
  size_t size = 0;  // of one image
};

// Which program a step belongs to.
enum Phase : size_t { single, block, tail, phases };

// The network: a head that runs on one image (`single`) or on a vector of images (`block`), and a
// tail of fully connected layers that runs on all images of a batch at once.
class Engine {
 public:
  Engine();
  ~Engine();
  Program program[phases];

  static size_t lanes();
  // y: [images][outputs]. Adds each step's seconds to `seconds[phase]` where it is given.
  void run(const Images& x, size_t images, float* y, size_t threads,
           std::vector<double>* seconds) const;
  // How many images of a batch run one by one; the others run in vectors.
  static size_t singles(size_t images);

 private:
  struct Memory;
  void run_part(const Images& x, size_t images, float* y, size_t threads,
                std::vector<double>* seconds) const;
  std::unique_ptr<Memory> borrow(size_t floats) const;
  void give_back(std::unique_ptr<Memory> memory) const;

  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Memory>> idle_;  // of former runs, to be used again
};

}  // namespace skinny
