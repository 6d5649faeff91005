// Coding a small sparse tensor, mask and symbols, with probabilities that are learned on the way, as
// docs/format.md specifies it; src/skinny/packing/adaptive.py is the reference.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bind.h"
#include "require.h"

#include <nanobind/ndarray.h>

namespace nb = nanobind;

namespace skinny::adaptive {
namespace {

using In = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Out = nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

constexpr uint32_t top = 1 << 24, lowest = 1 << 12, slowest = 255;

struct State {
  uint32_t p = top / 2, n = 0;  // probability of a one, in 2^24; how often it was learned

  void learn(bool bit) {
    if (bit)
      p += 2 * (top - p) / (2 * n + 3);
    else
      p -= 2 * p / (2 * n + 3);
    p = std::min(std::max(p, lowest), top - lowest);
    n = std::min(n + 1, slowest);
  }
};

class Encoder {
 public:
  bool code(State& state, bool bit) {
    uint32_t bound = (range_ >> 16) * (state.p >> 8);
    if (bit) {
      range_ = bound;
    } else {
      low_ += bound;
      range_ -= bound;
    }
    state.learn(bit);
    for (; range_ < top; range_ <<= 8) shift();
    return bit;
  }

  std::vector<uint8_t> finish() {
    uint64_t number = low_;
    for (int bits = 24; bits >= 0; bits -= 8) {
      number = (low_ + (uint64_t{1} << bits) - 1) >> bits << bits;
      if (number < low_ + range_) break;
    }
    low_ = number;
    for (int i = 0; i < 4; ++i) shift();
    while (!out_.empty() && out_.back() == 0) out_.pop_back();
    return std::move(out_);
  }

 private:
  void shift() {
    if (low_ >> 32) {  // carry
      size_t at = out_.size() - 1;
      for (; out_[at] == 255; --at) out_[at] = 0;
      ++out_[at];
    }
    out_.push_back(static_cast<uint8_t>(low_ >> 24));
    low_ = low_ << 8 & 0xFFFFFFFF;
  }

  uint64_t low_ = 0;
  uint32_t range_ = 0xFFFFFFFF;
  std::vector<uint8_t> out_;
};

class Decoder {
 public:
  Decoder(const uint8_t* stream, size_t size) : stream_(stream), size_(size) {
    for (int i = 0; i < 4; ++i) next();
  }

  bool code(State& state, bool) {
    uint32_t bound = (range_ >> 16) * (state.p >> 8);
    bool bit = number_ < bound;
    if (bit) {
      range_ = bound;
    } else {
      number_ -= bound;
      range_ -= bound;
    }
    state.learn(bit);
    for (; range_ < top; range_ <<= 8) next();
    return bit;
  }

  bool zeros_left() const {
    return std::all_of(stream_ + std::min(at_, size_), stream_ + size_,
                       [](uint8_t byte) { return byte == 0; });
  }

 private:
  void next() {
    number_ = number_ << 8 | (at_ < size_ ? stream_[at_] : 0u);
    ++at_;
  }

  const uint8_t* stream_;
  size_t size_, at_ = 0;
  uint32_t number_ = 0, range_ = 0xFFFFFFFF;
};

size_t bits_of(uint32_t ones) {
  return ones ? std::min<size_t>(4, 32u - static_cast<unsigned>(__builtin_clz(ones))) : 0;
}

// Codes the tensor: `mask` and `symbols` are read by an encoder, and written by a decoder. False if
// there are not as many ones as symbols.
template <class Coder, class Byte>
bool code(Coder& coder, size_t rows, size_t columns, Byte* mask, Byte* symbols, size_t kept,
          bool decodes) {
  uint64_t share = (static_cast<uint64_t>(kept) << 24) / std::max<uint64_t>(1, rows * columns);
  State first;
  first.p = static_cast<uint32_t>(std::clamp<uint64_t>(share, lowest, top - lowest));
  std::array<State, 50> of_mask;
  of_mask.fill(first);
  std::array<State, 256> of_symbol;
  std::vector<uint32_t> seen(columns);
  size_t at = 0, place = 0;
  for (size_t row = 0; row < rows; ++row) {
    uint32_t own = 0;
    bool bit = false;
    for (size_t column = 0; column < columns; ++column, ++place) {
      State& state = of_mask[(bits_of(seen[column]) * 5 + bits_of(own)) * 2 + bit];
      bit = coder.code(state, !decodes && (mask[place / 8] >> place % 8 & 1));
      if (!bit) continue;
      if (at == kept) return false;
      ++seen[column];
      ++own;
      unsigned node = 1, symbol = decodes ? 0u : symbols[at];
      for (int level = 7; level >= 0; --level)
        node = 2 * node + coder.code(of_symbol[node], symbol >> level & 1);
      if constexpr (!std::is_const_v<Byte>) {
        mask[place / 8] = static_cast<uint8_t>(mask[place / 8] | 1u << place % 8);
        symbols[at] = static_cast<uint8_t>(node);
      }
      ++at;
    }
  }
  return at == kept;
}

void check(size_t rows, size_t columns, size_t mask) {
  require(rows <= size_t{1} << 32 && columns <= size_t{1} << 30 && (rows * columns + 7) / 8 == mask,
          "a mask needs a bit for each entry");
}

nb::bytes encode(In mask, In symbols, size_t rows, size_t columns) {
  check(rows, columns, mask.size());
  Encoder coder;
  require(code(coder, rows, columns, mask.data(), symbols.data(), symbols.size(), false),
          "a mask needs a symbol for each one");
  std::vector<uint8_t> made = coder.finish();
  return nb::bytes(made.data(), made.size());
}

bool decode(In stream, size_t rows, size_t columns, Out mask, Out symbols) {
  check(rows, columns, mask.size());
  Decoder coder(stream.data(), stream.size());
  return code(coder, rows, columns, mask.data(), symbols.data(), symbols.size(), true) &&
         coder.zeros_left();
}

}  // namespace
}  // namespace skinny::adaptive

void skinny::bind_adaptive(nb::module_& m) {
  using namespace skinny::adaptive;
  m.def("adaptive_encode", &encode, nb::arg("mask"), nb::arg("symbols"), nb::arg("rows"),
        nb::arg("columns"));
  m.def("adaptive_decode", &decode, nb::arg("stream"), nb::arg("rows"), nb::arg("columns"),
        nb::arg("mask"), nb::arg("symbols"));
}
