#include "int8_pairs.h"

#include <algorithm>

#include "isa.h"
#include "workspace.h"

namespace skinny {
namespace {

// Bytes that planes may take: those of a block of channels, in the first-level cache, and a window's,
// in the second.
constexpr size_t cached_planes = 26 << 10, cached_window = 128 << 10;
constexpr size_t pixel_bytes = 8;  // of a channel of cells: four planes of two bytes
constexpr size_t offsets_end = 1 << 16;
// Products with -128 to 127 stay within 16 bits.
constexpr size_t most_weight = 32767 / 128;
// Of a quad, with a vector of 8 pixels: kernels of quads take three instructions for it, those of
// pairs two and a half for each pair.
constexpr size_t most_non_zeros = 5, of_quads = 2;

size_t weight(const Int8Pair& pair) { return size_t{pair.weights[0]} + pair.weights[1]; }

// planes: where those of the two channels begin, the complement after the first.
void append(std::vector<Int8Pair>& pairs, size_t planes, size_t length, int a, int b) {
  auto add = [&](int first, int second, bool negative) {
    if (first || second)
      pairs.push_back({static_cast<uint16_t>(negative ? planes + length : planes),
                       {static_cast<uint8_t>(first), static_cast<uint8_t>(second)}});
  };
  add(std::max(a, 0), std::max(b, 0), false);
  add(std::max(-a, 0), std::max(-b, 0), true);
}

// Pairs in segments: `whole` ones of `length`, then the others, shorter by one.
struct Segments {
  size_t row, length, whole, shorter;
  std::vector<Int8Pair> pairs;
};

// Sorted by weight, pairs are dealt to segments in turn, to and fro, so that all weigh about the same;
// to more segments until none weighs too much.
Segments divide(size_t row, std::vector<Int8Pair>& pairs) {
  if (pairs.empty()) return {row, 1, 0, 0, {}};
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const Int8Pair& a, const Int8Pair& b) { return weight(a) > weight(b); });
  size_t total = 0, size = pairs.size();
  for (const Int8Pair& pair : pairs) total += weight(pair);
  size_t count = std::max(divide_up(total, most_weight), divide_up(size, max_segment));
  std::vector<size_t> weights;
  // the last round, which may be a short one, begins at the first segment
  auto segment = [&](size_t i) {
    bool fro = ((size - 1) / count - i / count) % 2;
    return fro ? count - 1 - i % count : i % count;
  };
  auto fits = [&] {
    weights.assign(count, 0);
    for (size_t i = 0; i < size; ++i)
      if ((weights[segment(i)] += weight(pairs[i])) > most_weight) return false;
    return true;
  };
  while (!fits()) count = std::min(size, count + 1 + count / 32);
  size_t length = divide_up(size, count), whole = size - count * (length - 1);
  Segments made{row, length, whole, count - whole, std::vector<Int8Pair>(size)};
  for (size_t i = 0; i < size; ++i) {
    size_t s = segment(i);
    made.pairs[s * (length - 1) + std::min(s, whole) + i / count] = pairs[i];
  }
  if (length == 1) made.shorter = 0;
  return made;
}

}  // namespace

bool uses_int8_pairs(const Int8Weights& weights) {
  return isa() == Isa::avx2 && !has_vnni() &&
         of_quads * weights.non_zeros() <= most_non_zeros * weights.quads();
}

std::unique_ptr<const PairWindow> PairWindow::make(const std::vector<int32_t>& offsets,
                                                   size_t channel_stride, size_t row_stride,
                                                   size_t height, size_t width) {
  PairWindow w{};
  w.height = height;
  w.width = width;
  w.pixels = (height - 1) * row_stride + width;
  w.channel_stride = channel_stride;
  w.in_rows = height * divide_up(width, pixels_at_once) < divide_up(w.pixels, pixels_at_once);
  w.apart = w.in_rows ? row_stride : pixels_at_once;
  w.advance = strip_vectors * w.apart;
  std::vector<size_t> begins;  // of the vectors that a strip reads in a channel
  for (int32_t offset : offsets) {
    auto at = static_cast<size_t>(offset);
    w.channels = std::max(w.channels, at / channel_stride + 1);
    w.halo = std::max(w.halo, at % channel_stride);
    for (size_t n = 0; n < strip_vectors; ++n) begins.push_back(at % channel_stride + n * w.apart);
  }
  std::sort(begins.begin(), begins.end());
  size_t touched = pixels_at_once;
  for (size_t i = 1; i < begins.size(); ++i)
    touched += std::min(pixels_at_once, begins[i] - begins[i - 1]);
  auto fits = [&] { return 4 * w.block * w.length <= offsets_end; };
  auto extend = [&](size_t bands) {
    w.window_bands = bands;
    // an odd number of cache lines, so that planes do not share sets of the cache
    w.length = 32 * (divide_up(w.advance * bands + w.halo + pixels_at_once, 32) | 1);
  };
  extend(1);
  for (size_t blocks = divide_up(pixel_bytes * touched * w.channels, cached_planes);; blocks *= 2) {
    w.block = divide_up(w.channels, std::min(blocks, w.channels));
    if (fits()) break;
    if (w.block == 1) return nullptr;
  }
  for (size_t bands = 2; bands <= w.bands(); ++bands) {
    extend(bands);
    if (fits() && pixel_bytes * w.channels * w.length <= cached_window) continue;
    extend(bands - 1);
    break;
  }
  w.windows = divide_up(w.bands(), w.window_bands);
  extend(divide_up(w.bands(), w.windows));
  return std::make_unique<const PairWindow>(w);
}

Range PairWindow::strips_of(size_t window) const {
  return {window * window_bands * strips_of_band(),
          std::min((window + 1) * window_bands, bands()) * strips_of_band()};
}

size_t PairWindow::strip_at(size_t strip) const {
  return strip / strips_of_band() * advance + strip % strips_of_band() * pixels_at_once;
}

size_t PairWindow::vectors(size_t strip) const {
  size_t before = strip / strips_of_band() * strip_vectors;
  return std::min(strip_vectors, (in_rows ? height : divide_up(pixels, pixels_at_once)) - before);
}

size_t PairWindow::vectors_before(size_t strip) const {
  size_t band = strip / strips_of_band();
  return band * strips_of_band() * strip_vectors + strip % strips_of_band() * vectors(strip);
}

void PairWindow::unpack(size_t window, const float* cells, uint16_t* planes) const {
  size_t first = window * window_bands * advance;
  size_t count = round_up(std::min(window_bands * advance, pixels - first) + halo, 16);
#if defined(__x86_64__)
  for (size_t channel = 0; channel < channels; ++channel, planes += 4 * length)
    avx2::int8_pairs.unpack(cells + channel * channel_stride + first, count, planes, length);
#endif
}

size_t PairWindow::last_read() const {
  return (channels - 1) * channel_stride + pixels + halo + 15;
}

std::unique_ptr<const Int8Pairs> Int8Pairs::make(const Int8Weights& weights,
                                                 const std::vector<int32_t>& offsets,
                                                 const PairWindow& window, size_t most) {
  std::unique_ptr<Int8Pairs> made(new Int8Pairs);
  made->outputs_ = weights.outputs();
  std::vector<int8_t> integers = weights.integers();
  for (const Int8Weights::Block& block : weights.blocks())
    made->start_.insert(made->start_.end(), block.start.begin(), block.start.end());
  size_t parts = divide_up(window.channels, window.block), taps = weights.taps();
  for (size_t first = 0; first < made->outputs_; first += pairs_block) {
    size_t count = std::min(pairs_block, made->outputs_ - first);
    std::vector<std::vector<std::vector<Int8Pair>>> rows(
        parts, std::vector<std::vector<Int8Pair>>(count));
    for (size_t row = 0; row < count; ++row)
      for (size_t tap = 0; tap < taps; ++tap) {
        const int8_t* quad = integers.data() + ((first + row) * taps + tap) * 4;
        size_t channel = static_cast<size_t>(offsets[tap]) / window.channel_stride;
        size_t planes = 4 * (channel % window.block) * window.length +
                        static_cast<size_t>(offsets[tap]) % window.channel_stride;
        std::vector<Int8Pair>& pairs = rows[channel / window.block][row];
        append(pairs, planes, window.length, quad[0], quad[1]);
        append(pairs, planes + 2 * window.length, window.length, quad[2], quad[3]);
      }
    std::vector<Part>& all = made->parts_.emplace_back();
    for (size_t part = 0; part < parts; ++part) {
      all.push_back({made->pairs_.size(), 4 * part * window.block * window.length, {}, {}});
      if (!made->add(all.back(), rows[part])) return nullptr;
    }
    if (made->pairs_.size() * sizeof(Int8Pair) > most) return nullptr;
  }
  made->pairs_.shrink_to_fit();
  return made;
}

// Rows with as long segments, and as many, after each other.
bool Int8Pairs::add(Part& part, std::vector<std::vector<Int8Pair>>& rows) {
  std::vector<Segments> divided;
  for (size_t row = 0; row < rows.size(); ++row) divided.push_back(divide(row, rows[row]));
  std::stable_sort(divided.begin(), divided.end(), [](const Segments& a, const Segments& b) {
    if (a.length != b.length) return a.length < b.length;
    return a.whole != b.whole ? a.whole < b.whole : a.shorter < b.shorter;
  });
  for (const Segments& row : divided) {
    if (std::max(row.whole, row.shorter) > UINT16_MAX) return false;
    if (part.runs.empty() || part.runs.back().length != row.length)
      part.runs.push_back({static_cast<uint32_t>(row.length), 0});
    ++part.runs.back().rows;
    part.rows.push_back({static_cast<uint16_t>(row.row), static_cast<uint16_t>(row.whole),
                         static_cast<uint16_t>(row.shorter)});
    pairs_.insert(pairs_.end(), row.pairs.begin(), row.pairs.end());
  }
  return true;
}

void Int8Pairs::run([[maybe_unused]] size_t block, [[maybe_unused]] const uint16_t* strip,
                    [[maybe_unused]] size_t vectors, [[maybe_unused]] size_t apart,
                    [[maybe_unused]] int32_t* sums) const {
#if defined(__x86_64__)
  const int32_t* start = start_.data() + block * pairs_block;
  for (const Part& part : parts_[block]) {
    avx2::int8_pairs.sums(part.runs.data(), part.runs.size(), part.rows.data(),
                          pairs_.data() + part.first, strip + part.plane, vectors, apart, start,
                          sums, rows(block));
    start = nullptr;
  }
#endif
}

size_t Int8Pairs::rows(size_t block) const {
  return std::min(pairs_block, outputs_ - block * pairs_block);
}

size_t Int8Pairs::bytes() const {
  size_t total = pairs_.size() * sizeof(Int8Pair) + start_.size() * sizeof(int32_t);
  for (const std::vector<Part>& block : parts_)
    for (const Part& part : block)
      total += part.runs.size() * sizeof(Int8PairRun) + part.rows.size() * sizeof(Int8PairRow);
  return total;
}

}  // namespace skinny
