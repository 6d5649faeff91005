#include "int8_weights.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "require.h"

namespace skinny {
namespace {

int32_t quad_of(const int8_t* bytes) {
  int32_t quad;
  std::memcpy(&quad, bytes, sizeof quad);
  return quad;
}

// Whether kernels multiply |w| with x - 128, or 127 - x for a negative w, in place of w with x.
bool flips() { return !has_vnni() && isa() >= Isa::avx2; }

// Of kernels that flip: w x = |w| (x - 128) + 128 w, or |w| (127 - x) + |w| + 128 w.
int32_t flipped_start(const int8_t* weights, size_t count, int32_t zero) {
  int64_t sum = 0;
  for (size_t i = 0; i < count; ++i) sum += (128 - zero) * weights[i] + std::max(0, -weights[i]);
  return static_cast<int32_t>(sum);
}

}  // namespace

int32_t int8_start(const int8_t* weights, size_t count, int32_t zero) {
  int64_t sum = 0;
  for (size_t i = 0; i < count; ++i) sum += weights[i];
  return static_cast<int32_t>(-zero * sum);
}

bool has_vnni() {
#if defined(__x86_64__)
  static const bool found = [] {
    const char* wish = std::getenv("SKINNY_VNNI");
    if (wish && std::strcmp(wish, "0") == 0) return false;
    if (wish && std::strcmp(wish, "1") == 0) return isa() >= Isa::avx2;
    __builtin_cpu_init();
    if (isa() == Isa::avx512)
      return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vbmi2");
    return isa() == Isa::avx2 && has_avx_vnni();
  }();
  return found;
#else
  return false;
#endif
}

bool generates_int8() {
  const char* wish = std::getenv("SKINNY_JIT");
  return isa() == Isa::avx512 && has_vnni() && !(wish && std::strcmp(wish, "0") == 0);
}

const Int8Kernels& int8_kernels() {
#if defined(__x86_64__)
  if (has_vnni()) return isa() == Isa::avx512 ? avx512::int8_vnni : avx2::int8_vnni;
#endif
  return SKINNY_CHOOSE(int8);
}

const Int8Dot& int8_dot() {
#if defined(__x86_64__)
  if (has_vnni() && isa() == Isa::avx512) return avx512::int8_dot_vnni;
#endif
  return SKINNY_CHOOSE(int8_dot);
}

Int8Weights::Int8Weights(const int8_t* quads, size_t outputs, size_t taps, int32_t zero,
                         std::vector<float> scale, std::vector<float> bias)
    : outputs_(outputs),
      taps_(taps),
      by_tap_(generates_int8()),
      scale_(std::move(scale)),
      bias_(std::move(bias)) {
  require(outputs && taps && taps <= max_int8_taps, "a layer in int8 has too many taps");
  require(scale_.size() == outputs && bias_.size() == outputs,
          "a scale and a bias for each output is needed");
  non_zeros_ = 4 * outputs * taps -
               static_cast<size_t>(std::count(quads, quads + 4 * outputs * taps, int8_t{0}));
  scale_.resize((outputs + 3) / 4 * 4);
  bias_.resize((outputs + 3) / 4 * 4);
  for (size_t row = 0; row < outputs; row += int8_block) {
    Block& block = blocks_.emplace_back();
    for (size_t o = row; o < std::min(outputs, row + int8_block); ++o) {
      const int8_t* weights = quads + o * taps * 4;
      block.first.push_back(static_cast<uint32_t>(block.quads.size()));
      block.start.push_back((flips() ? flipped_start : int8_start)(weights, 4 * taps, zero));
      for (size_t tap = 0; tap < taps; ++tap)
        if (int32_t quad = quad_of(weights + 4 * tap)) {
          block.quads.push_back(quad);
          block.taps.push_back(static_cast<uint16_t>(tap));
        }
    }
    block.first.push_back(static_cast<uint32_t>(block.quads.size()));
    block.count = block.quads.size();
    if (by_tap_) sort_by_tap(block);
    block.quads.shrink_to_fit();
    block.taps.shrink_to_fit();
  }
  // Quads that take little memory are not expanded again and again.
  constexpr size_t small = 8192;
  if (by_tap_ && this->quads() > small && non_zeros_ < 2 * this->quads()) pack();
}

void Int8Weights::pack() {
  for (Block& block : blocks_) {
    block.bits.resize((block.count + 15) / 16 * 8);
    block.values.reserve(4 * block.count);
    for (size_t q = 0; q < block.count; ++q) {
      int8_t quad[4];
      std::memcpy(quad, &block.quads[q], sizeof quad);
      for (size_t i = 0; i < 4; ++i)
        if (quad[i]) {
          block.bits[q / 2] |= static_cast<uint8_t>(1u << (q % 2 * 4 + i));
          block.values.push_back(quad[i]);
        }
    }
    block.values.resize(block.values.size() + 64);  // kernels read whole vectors
    block.values.shrink_to_fit();
    block.quads.clear();
    block.quads.shrink_to_fit();
  }
}

void Int8Weights::Block::expand(size_t begin, size_t end, size_t value, int32_t* to) const {
  int8_dot().expand(bits.data() + begin / 2, values.data() + value, end - begin, to);
}

size_t Int8Weights::most_packed() const {
  size_t most = 0;
  for (const Block& block : blocks_)
    if (block.packed()) most = std::max(most, (block.count + 15) / 16 * 16);
  return most;
}

void Int8Weights::sort_by_tap(Block& block) const {
  struct Entry {
    uint16_t tap, row;
    int32_t quad;
  };
  std::vector<Entry> entries;
  entries.reserve(block.quads.size());
  for (size_t row = 0; row + 1 < block.first.size(); ++row)
    for (size_t q = block.first[row]; q < block.first[row + 1]; ++q)
      entries.push_back({block.taps[q], static_cast<uint16_t>(row), block.quads[q]});
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.tap < b.tap; });
  block.first.clear();
  block.first.shrink_to_fit();
  block.taps.clear();
  if (entries.empty()) return;
  block.first_tap = entries.front().tap;
  block.rows.resize(entries.back().tap - block.first_tap + 1u);
  for (size_t i = 0; i < entries.size(); ++i) {
    block.rows[entries[i].tap - block.first_tap] |= 1u << entries[i].row;
    block.quads[i] = entries[i].quad;
  }
}

std::vector<int8_t> Int8Weights::integers() const {
  std::vector<int8_t> made(outputs_ * taps_ * 4);
  auto add = [&](size_t output, size_t tap, int32_t quad) {
    int8_t part[4];
    std::memcpy(part, &quad, sizeof quad);
    for (size_t i = 0; i < 4; ++i)
      if (part[i]) made[(output * taps_ + tap) * 4 + i] = part[i];
  };
  for (size_t b = 0; b < blocks_.size(); ++b) {
    const Block& block = blocks_[b];
    std::vector<int32_t> quads = block.quads;
    if (block.packed()) {
      quads.resize(most_packed());
      block.expand(0, block.count, 0, quads.data());
    }
    size_t q = 0;
    if (by_tap_)
      for (size_t t = 0; t < block.rows.size(); ++t)
        for (uint32_t left = block.rows[t]; left; left &= left - 1)
          add(b * int8_block + static_cast<size_t>(__builtin_ctz(left)), block.first_tap + t,
              quads[q++]);
    else
      for (size_t row = 0; row + 1 < block.first.size(); ++row)
        for (; q < block.first[row + 1]; ++q)
          add(b * int8_block + row, block.taps[q], quads[q]);
  }
  return made;
}

size_t Int8Weights::quads() const {
  size_t total = 0;
  for (const Block& block : blocks_) total += block.count;
  return total;
}

size_t Int8Weights::bytes() const {
  size_t total = (scale_.size() + bias_.size()) * sizeof(float);
  for (const Block& block : blocks_)
    total += block.bits.size() + block.values.size() + 2 * block.taps.size() +
             4 * (block.quads.size() + block.first.size() + block.rows.size() + block.start.size());
  return total;
}

}  // namespace skinny
