#include "entropy.h"

#include <nanobind/ndarray.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "bind.h"
#include "lanes.h"

namespace nb = nanobind;

namespace skinny::entropy {
namespace {

// byte[first[k] + rank]: bytes ordered by their number of ones k, then by value; and the inverse.
struct Ranks {
  std::array<uint8_t, 256> byte{}, rank{}, ones{};
  std::array<uint32_t, counts> first{};
  Ranks() {
    uint32_t at = 0;
    for (uint32_t k = 0; k < counts; ++k) {
      first[k] = at;
      for (uint32_t b = 0; b < 256; ++b) {
        if (static_cast<uint32_t>(__builtin_popcount(b)) != k) continue;
        ones[b] = static_cast<uint8_t>(k);
        rank[b] = static_cast<uint8_t>(at - first[k]);
        byte[at++] = static_cast<uint8_t>(b);
      }
    }
  }
};
const Ranks ranks;

std::vector<Table> tables(const Array<const uint32_t>& frequencies) {
  require(frequencies.ndim() == 2 && frequencies.shape(1) == counts &&
              frequencies.shape(0) >= 1 && frequencies.shape(0) <= max_classes,
          "frequencies must be [1 to 9 classes][9]");
  std::vector<Table> all(frequencies.shape(0));
  for (size_t c = 0; c < all.size(); ++c) {
    uint64_t sum = 0;
    for (size_t k = 0; k < counts; ++k) {
      all[c].frequency[k] = frequencies.data()[c * counts + k];
      all[c].first[k] = static_cast<uint32_t>(sum);
      sum += all[c].frequency[k];
    }
    require(sum == slots, "the frequencies of a class must sum to 16384");
  }
  return all;
}

// How often a byte of each class has k ones: out[class][k].
void histogram(Array<const uint8_t> mask, Array<uint64_t> out, size_t threads) {
  require(out.size() == max_classes * counts, "out must be [9][9]");
  nb::gil_scoped_release release;
  std::array<std::atomic<uint64_t>, max_classes * counts> total{};
  for_blocks(block_count(mask.size()), 1, threads, [&](size_t block, size_t) {
    std::array<uint64_t, max_classes * counts> own{};
    const uint8_t* byte = mask.data() + block * block_size;
    const uint8_t* end = std::min(byte + block_size, mask.data() + mask.size());
    for (Recent recent; byte < end; ++byte) {
      uint32_t k = ranks.ones[*byte];
      ++own[recent.class_of(max_classes) * counts + k];
      recent.add(k);
    }
    for (size_t i = 0; i < own.size(); ++i) total[i] += own[i];
  });
  for (size_t i = 0; i < total.size(); ++i) out.data()[i] = total[i];
}

// Codes one block, backwards from `end`, where its words end; returns the number of words.
size_t encode_block(const uint8_t* bytes, size_t count, const std::vector<Table>& model,
                    uint64_t& state, uint32_t* end) {
  std::array<uint8_t, block_size> classes;
  Recent recent;
  for (size_t i = 0; i < count; ++i) {
    classes[i] = static_cast<uint8_t>(recent.class_of(model.size()));
    recent.add(ranks.ones[bytes[i]]);
  }
  uint32_t* word = end;
  uint64_t x = low;
  for (size_t i = count; i-- > 0;) {
    uint32_t k = ranks.ones[bytes[i]];
    const Table& table = model[classes[i]];
    uint64_t f = table.frequency[k], n = patterns[k];
    if (x >= (f * (low / slots / n)) << 32) {
      *--word = static_cast<uint32_t>(x);
      x >>= 32;
    }
    x = x * n + ranks.rank[bytes[i]];
    x = ((x / f) << slot_bits) + x % f + table.first[k];
  }
  state = x;
  return static_cast<size_t>(end - word);
}

// Fills states and word_counts, one per block; returns the words of all blocks as bytes.
nb::bytes encode(Array<const uint8_t> mask, Array<const uint32_t> frequencies,
                 Array<uint64_t> states, Array<uint16_t> word_counts, size_t threads) {
  size_t blocks = block_count(mask.size());
  require(states.size() == blocks && word_counts.size() == blocks, "one state and count per block");
  auto model = tables(frequencies);
  WordBuffer words(mask.size());
  {
    nb::gil_scoped_release release;
    std::atomic<bool> impossible{false};  // a byte has frequency zero
    for_blocks(blocks, 1, threads, [&](size_t block, size_t) {
      const uint8_t* bytes = mask.data() + block * block_size;
      size_t count = std::min(block_size, mask.size() - block * block_size);
      Recent recent;
      for (size_t i = 0; i < count; ++i) {
        if (model[recent.class_of(model.size())].frequency[ranks.ones[bytes[i]]] == 0) {
          impossible = true;
          return;
        }
        recent.add(ranks.ones[bytes[i]]);
      }
      word_counts.data()[block] = static_cast<uint16_t>(
          encode_block(bytes, count, model, states.data()[block], words.end(block)));
    });
    require(!impossible, "the frequencies leave no room for a byte of the mask");
  }
  return words.join(word_counts);
}

// The decoder's tables.
struct Decoder {
  struct Range {
    uint32_t frequency, first;
  };
  struct Ones {
    uint64_t magic;  // x / C(8, k) is the high 64 bits of 2 x * magic, >> shift
    uint32_t shift, patterns, first;
  };
  using Context = Recent;
  static constexpr uint64_t low = entropy::low;
  std::array<uint8_t, Recent::levels> class_at{};
  std::vector<uint8_t> ones_at;               // [class][slot]: the k whose range holds the slot
  std::vector<std::array<Range, 16>> ranges;  // [class][k]
  std::array<Ones, counts> ones{};

  explicit Decoder(const std::vector<Table>& model)
      : ones_at(model.size() * slots), ranges(model.size()) {
    for (uint32_t level = 0; level < Recent::levels; ++level)
      class_at[level] = static_cast<uint8_t>(Recent::class_of(level, model.size()));
    for (size_t c = 0; c < model.size(); ++c)
      for (size_t k = 0; k < counts; ++k) {
        ranges[c][k] = {model[c].frequency[k], model[c].first[k]};
        std::fill_n(ones_at.begin() + static_cast<ptrdiff_t>(c * slots + model[c].first[k]),
                    model[c].frequency[k], static_cast<uint8_t>(k));
      }
    for (size_t k = 0; k < counts; ++k) {
      uint32_t shift = 0;
      while ((uint64_t(1) << shift) < patterns[k]) ++shift;
      unsigned __int128 power = static_cast<unsigned __int128>(1) << (63 + shift);
      ones[k] = {static_cast<uint64_t>((power + patterns[k] - 1) / patterns[k]), shift,
                 static_cast<uint32_t>(patterns[k]), ranks.first[k]};
    }
  }

  uint8_t pop(uint64_t& state, Recent& recent) const {
    size_t c = class_at[recent.level()];
    uint64_t slot = state & (slots - 1);
    size_t k = ones_at[c * slots + slot];
    Range range = ranges[c][k];
    const Ones& pattern = ones[k];
    uint64_t x = range.frequency * (state >> slot_bits) + slot - range.first;
    unsigned __int128 product = static_cast<unsigned __int128>(x << 1) * pattern.magic;
    state = static_cast<uint64_t>(product >> 64) >> pattern.shift;
    recent.add(static_cast<uint32_t>(k));
    return ranks.byte[pattern.first + (x - state * pattern.patterns)];
  }
};

bool decode(Array<const uint32_t> words, Array<const uint64_t> states,
            Array<const uint16_t> word_counts, Array<const uint32_t> frequencies,
            Array<uint8_t> mask, size_t threads) {
  return decode_blocks(Decoder(tables(frequencies)), words, states, word_counts, mask, threads);
}

}  // namespace
}  // namespace skinny::entropy

void skinny::bind_entropy(nb::module_& m) {
  using namespace skinny::entropy;
  m.def("entropy_histogram", &histogram, nb::arg("mask"), nb::arg("out"), nb::arg("threads"));
  m.def("entropy_encode", &encode, nb::arg("mask"), nb::arg("frequencies"), nb::arg("states"),
        nb::arg("word_counts"), nb::arg("threads"));
  m.def("entropy_decode", &decode, nb::arg("words"), nb::arg("states"), nb::arg("word_counts"),
        nb::arg("frequencies"), nb::arg("mask"), nb::arg("threads"));
}
