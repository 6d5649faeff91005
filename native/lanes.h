// Decoding blocks of rANS side by side: several in one thread hide each other's latency.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <vector>

#include "blocks.h"

namespace skinny {

// What is coded in one block: a state, and the words that refill it.
struct Coded {
  uint64_t state;
  const uint32_t *word, *end;
};

inline uint32_t load_word(const uint32_t* at) {  // an array we are given need not be aligned
  uint32_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

// Decodes N neighbouring blocks of `count` symbols each. False if a block's words run out, are left
// over, or do not lead back to the state that encoding began with.
//
// A coder has the lowest state, `low`; a Context, what a block remembers of its symbols; and
// pop(state, context), which takes the next symbol out of a state.
template <size_t N, class Coder>
bool decode_lanes(const Coder& coder, const Coded* blocks, size_t count, uint8_t* out) {
  constexpr size_t stretch = 16;  // symbols between looks at how many words are left
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
        // Without a branch: whether a word is needed cannot be foreseen.
        uint64_t hungry = x < Coder::low, all = -hungry;
        state[lane] = x << (all & 32) | (load_word(word[lane]) & all);
        word[lane] += hungry;
      }
  bool clean = true;
  for (size_t lane = 0; lane < N; ++lane) {
    for (size_t j = i; j < count; ++j) {
      out[lane * block_size + j] = coder.pop(state[lane], context[lane]);
      if (state[lane] >= Coder::low) continue;
      bool fed = word[lane] != end[lane];
      state[lane] = state[lane] << 32 | (fed ? load_word(word[lane]++) : 0);
      clean &= fed;
    }
    clean &= word[lane] == end[lane] && state[lane] == Coder::low;
  }
  return clean;
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
  constexpr size_t together = 4;  // more do not fit in the registers
  std::atomic<bool> clean{true};
  for_blocks(blocks, together, threads, [&](size_t begin, size_t end) {
    uint8_t* to = out.data() + begin * block_size;
    size_t count = std::min(end * block_size, out.size()) - begin * block_size;
    if (count == together * block_size) {
      if (!decode_lanes<together>(coder, &coded[begin], block_size, to)) clean = false;
      return;
    }
    for (size_t b = begin; b < end; ++b, to += block_size, count -= std::min(count, block_size))
      if (!decode_lanes<1>(coder, &coded[b], std::min(count, block_size), to)) clean = false;
  });
  return clean;
}

}  // namespace skinny
