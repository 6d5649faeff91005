// The gates of recurrent layers, for one time step of one sample.
#pragma once

#include <cstddef>

#include "isa.h"

namespace skinny {

// x: the input's projection; r: the state's, biases included; both [gates][size]. `h` and `c` are
// replaced by the next state.
struct RecurrentKernels {
  // gates i, f, g, o: c = sigmoid(f) c + sigmoid(i) tanh(g); h = sigmoid(o) tanh(c)
  void (*lstm)(const float* x, const float* r, size_t size, float* h, float* c);
  // gates r, z, n: h = (1 - z) tanh(xn + sigmoid(xr + hr) hn) + z h with z = sigmoid(xz + hz)
  void (*gru)(const float* x, const float* r, size_t size, float* h);
};

}  // namespace skinny

SKINNY_DECLARE_KERNELS(RecurrentKernels, recurrent)
