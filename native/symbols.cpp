// Entropy coding of bytes with one table of frequencies, as docs/format.md specifies it: rANS, in
// independent blocks.
#include <nanobind/ndarray.h>

#include <array>
#include <cstring>

#include "bind.h"
#include "lanes.h"

namespace nb = nanobind;

namespace skinny::symbols {
namespace {

constexpr uint64_t low = uint64_t(1) << 31;  // states live in [low, low << 32)

struct Table {
  std::array<uint32_t, 256> frequency, first;

  explicit Table(const Array<const uint32_t>& frequencies) {
    require(frequencies.size() == 256, "frequencies must be [256]");
    uint64_t sum = 0;
    for (size_t s = 0; s < 256; ++s) {
      frequency[s] = frequencies.data()[s];
      first[s] = static_cast<uint32_t>(sum);
      sum += frequency[s];
    }
    require(sum == slots, "the frequencies must sum to 16384");
  }
};

// Fills states and word_counts, one per block; returns the words of all blocks as bytes.
nb::bytes encode(Array<const uint8_t> bytes, Array<const uint32_t> frequencies,
                 Array<uint64_t> states, Array<uint16_t> word_counts, size_t threads) {
  size_t blocks = block_count(bytes.size());
  require(states.size() == blocks && word_counts.size() == blocks, "one state and count per block");
  Table table(frequencies);
  for (size_t i = 0; i < bytes.size(); ++i)
    require(table.frequency[bytes.data()[i]] != 0, "every byte must have a frequency");
  WordBuffer words(bytes.size());
  {
    nb::gil_scoped_release release;
    for_blocks(blocks, 1, threads, [&](size_t block, size_t) {
      size_t begin = block * block_size, end = std::min(begin + block_size, bytes.size());
      uint64_t x = low;
      uint32_t* word = words.end(block);
      for (size_t i = end; i-- > begin;) {
        uint64_t f = table.frequency[bytes.data()[i]];
        if (x >= (f * (low / slots)) << 32) {
          *--word = static_cast<uint32_t>(x);
          x >>= 32;
        }
        x = ((x / f) << slot_bits) + x % f + table.first[bytes.data()[i]];
      }
      states.data()[block] = x;
      word_counts.data()[block] = static_cast<uint16_t>(words.end(block) - word);
    });
  }
  return words.join(word_counts);
}

// Its tables are small enough for the first-level cache.
struct Decoder {
  struct Context {};  // every symbol has the same frequencies
  struct Range {
    uint16_t frequency, first;
  };
  static constexpr uint64_t low = symbols::low;
  std::array<uint8_t, slots> symbol_at;  // the symbol whose range holds the slot
  std::array<Range, 256> range;

  explicit Decoder(const Table& table) {
    for (size_t s = 0; s < 256; ++s) {
      range[s] = {static_cast<uint16_t>(table.frequency[s]), static_cast<uint16_t>(table.first[s])};
      std::fill_n(symbol_at.begin() + table.first[s], table.frequency[s], static_cast<uint8_t>(s));
    }
  }

  uint8_t pop(uint64_t& state, Context&) const {
    uint64_t slot = state & (slots - 1);
    uint8_t symbol = symbol_at[slot];
    Range own = range[symbol];
    state = own.frequency * (state >> slot_bits) + slot - own.first;
    return symbol;
  }
};

bool decode(Array<const uint32_t> words, Array<const uint64_t> states,
            Array<const uint16_t> word_counts, Array<const uint32_t> frequencies,
            Array<uint8_t> bytes, size_t threads) {
  return decode_blocks(Decoder(Table(frequencies)), words, states, word_counts, bytes, threads);
}

// Rotates each value left by one bit: its top byte is then the symbol, the others are the rest.
template <class T>
void split_values(const uint8_t* values, size_t count, uint8_t* symbols, uint8_t* rest) {
  for (size_t i = 0; i < count; ++i) {
    T bits;
    std::memcpy(&bits, values + i * sizeof(T), sizeof(T));
    bits = static_cast<T>(bits << 1 | bits >> (8 * sizeof(T) - 1));
    symbols[i] = static_cast<uint8_t>(bits >> (8 * sizeof(T) - 8));
    for (size_t byte = 0; byte + 1 < sizeof(T); ++byte)
      *rest++ = static_cast<uint8_t>(bits >> (8 * byte));
  }
}

template <class T>
void join_values(const uint8_t* symbols, const uint8_t* rest, size_t count, uint8_t* values) {
  for (size_t i = 0; i < count; ++i) {
    T bits = static_cast<T>(static_cast<T>(symbols[i]) << (8 * sizeof(T) - 8));
    for (size_t byte = 0; byte + 1 < sizeof(T); ++byte)
      bits = static_cast<T>(bits | static_cast<T>(static_cast<T>(*rest++) << (8 * byte)));
    bits = static_cast<T>(bits >> 1 | bits << (8 * sizeof(T) - 1));
    std::memcpy(values + i * sizeof(T), &bits, sizeof(T));
  }
}

// Calls job(begin, count) for ranges of the values, on up to `threads` threads.
template <class Job>
void for_values(size_t values, size_t threads, Job job) {
  for_blocks(block_count(values), 4, threads, [&](size_t begin, size_t end) {
    size_t from = begin * block_size;
    job(from, std::min(end * block_size, values) - from);
  });
}

void check_sizes(size_t width, size_t values, size_t symbols, size_t rest) {
  require(width == 1 || width == 2 || width == 4 || width == 8, "width must be 1, 2, 4 or 8 bytes");
  require(values == symbols * width, "there must be one symbol per value");
  require(rest == symbols * (width - 1), "the rest must have the other bytes of every value");
}

#define SKINNY_BY_WIDTH(call)              \
  switch (width) {                         \
    case 1: { using T = uint8_t; call; break; }   \
    case 2: { using T = uint16_t; call; break; }  \
    case 4: { using T = uint32_t; call; break; }  \
    default: { using T = uint64_t; call; break; } \
  }

void split(Array<const uint8_t> values, size_t width, Array<uint8_t> symbols, Array<uint8_t> rest,
           size_t threads) {
  check_sizes(width, values.size(), symbols.size(), rest.size());
  nb::gil_scoped_release release;
  for_values(symbols.size(), threads, [&](size_t at, size_t count) {
    SKINNY_BY_WIDTH(split_values<T>(values.data() + at * width, count, symbols.data() + at,
                                  rest.data() + at * (width - 1)))
  });
}

void join(Array<const uint8_t> symbols, Array<const uint8_t> rest, size_t width,
          Array<uint8_t> values, size_t threads) {
  check_sizes(width, values.size(), symbols.size(), rest.size());
  nb::gil_scoped_release release;
  for_values(symbols.size(), threads, [&](size_t at, size_t count) {
    SKINNY_BY_WIDTH(join_values<T>(symbols.data() + at, rest.data() + at * (width - 1), count,
                                 values.data() + at * width))
  });
}

}  // namespace
}  // namespace skinny::symbols

void skinny::bind_symbols(nb::module_& m) {
  using namespace skinny::symbols;
  m.def("symbols_split", &split, nb::arg("values"), nb::arg("width"), nb::arg("symbols"),
        nb::arg("rest"), nb::arg("threads"));
  m.def("symbols_join", &join, nb::arg("symbols"), nb::arg("rest"), nb::arg("width"),
        nb::arg("values"), nb::arg("threads"));
  m.def("symbols_encode", &encode, nb::arg("bytes"), nb::arg("frequencies"), nb::arg("states"),
        nb::arg("word_counts"), nb::arg("threads"));
  m.def("symbols_decode", &decode, nb::arg("words"), nb::arg("states"), nb::arg("word_counts"),
        nb::arg("frequencies"), nb::arg("bytes"), nb::arg("threads"));
}
