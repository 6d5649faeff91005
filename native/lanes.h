// Decoding several rANS blocks interleaved in one thread, which hides the latency of each.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <vector>

#include "blocks.h"

namespace skinny {

// A coded block: its state, and the words that renormalise it.
struct Coded {
  uint64_t state;
  const uint32_t *word, *end;
};

inline uint32_t load_word(const uint32_t* at) {  // the caller's array need not be aligned
  uint32_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

// Decodes N neighbouring blocks of `count` symbols each. False if a block has too few or too many
// words, or does not end in the state that encoding began with.
//
// A Coder has: `low`, below which a state is renormalised; Context, the state of its model within a
// block; pop(state, context), which removes the next symbol from a state and returns it.
template <size_t N, class Coder>
bool decode_lanes(const Coder& coder, const Coded* blocks, size_t count, uint8_t* out) {
  constexpr size_t stretch = 16;  // symbols between checks that enough words are left
  uint64_t state[N];
  const uint32_t *word[N], *end[N];
  typename Coder::Context context[N];
  for (size_t lane = 0; lane < N; ++lane) {
    state[lane] = blocks[lane].state;
    word[lane] = blocks[lane].word;
    end[lane] = blocks[lane].end;
  }
  size_t i = 0;
  auto enough = [&] {
    bool all = i + stretch <= count;
    for (size_t lane = 0; lane < N; ++lane)
      all &= end[lane] - word[lane] >= static_cast<ptrdiff_t>(stretch);
    return all;
  };
  while (enough())
    for (size_t stop = i + stretch; i < stop; ++i)
#pragma GCC unroll 8
      for (size_t lane = 0; lane < N; ++lane) {
        uint64_t x = state[lane];
        out[lane * block_size + i] = coder.pop(x, context[lane]);
        // Without a branch, which would be unpredictable.
        uint64_t renormalise = x < Coder::low, mask = -renormalise;
        state[lane] = x << (mask & 32) | (load_word(word[lane]) & mask);
        word[lane] += renormalise;
      }
  bool valid = true;
  for (size_t lane = 0; lane < N; ++lane) {
    for (size_t j = i; j < count; ++j) {
      out[lane * block_size + j] = coder.pop(state[lane], context[lane]);
      if (state[lane] >= Coder::low) continue;
      bool available = word[lane] != end[lane];
      state[lane] = state[lane] << 32 | (available ? load_word(word[lane]++) : 0);
      valid &= available;
    }
    valid &= word[lane] == end[lane] && state[lane] == Coder::low;
  }
  return valid;
}

// Decodes all blocks into `out`; false as above.
template <class Coder>
bool decode_blocks(const Coder& coder, const Array<const uint32_t>& words,
                   const Array<const uint64_t>& states, const Array<const uint16_t>& word_counts,
                   const Array<uint8_t>& out, size_t threads) {
  size_t blocks = block_count(out.size());
  require(states.size() == blocks && word_counts.size() == blocks, "one state and count per block");
  std::vector<Coded> coded(blocks);
  size_t used = 0;
  for (size_t i = 0; i < blocks; ++i) {
    uint64_t state = states.data()[i];
    require(state >= Coder::low && state < Coder::low << 32, "a state is out of range");
    size_t after = used + word_counts.data()[i];
    require(after <= words.size(), "the counts must add up to the words");
    coded[i] = {state, words.data() + used, words.data() + after};
    used = after;
  }
  require(used == words.size(), "the counts must add up to the words");
  nanobind::gil_scoped_release release;
  constexpr size_t interleaved = 4;  // more do not fit in the registers
  std::atomic<bool> valid{true};
  for_blocks(blocks, interleaved, threads, [&](size_t begin, size_t end) {
    uint8_t* to = out.data() + begin * block_size;
    size_t count = std::min(end * block_size, out.size()) - begin * block_size;
    if (count == interleaved * block_size) {
      if (!decode_lanes<interleaved>(coder, &coded[begin], block_size, to)) valid = false;
      return;
    }
    for (size_t b = begin; b < end; ++b, to += block_size, count -= std::min(count, block_size))
      if (!decode_lanes<1>(coder, &coded[b], std::min(count, block_size), to)) valid = false;
  });
  return valid;
}

}  // namespace skinny
