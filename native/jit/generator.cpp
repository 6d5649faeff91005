#include "generator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "require.h"

namespace skinny::jit {
namespace {

// The registers of a function: its arguments in the order of the System V calling convention, and
// others that the caller saves.
constexpr Reg in = Reg::rdi, out = Reg::rsi, out_stride = Reg::rdx, values = Reg::rcx;
constexpr Reg patches = Reg::r8, residual = Reg::r9, next_code = Reg::r10,
              next_stream = Reg::r11;  // of grouped channels
constexpr Reg row_stride = Reg::r8, row_stride_3 = Reg::r9, row_stride_5 = Reg::r10,
              row_stride_7 = Reg::r11, at = Reg::rax;

// Of a function for single channels: tiles take turns, and each has to load its input again.
constexpr size_t long_code = 192 << 10;
constexpr size_t line = 64;
constexpr size_t bytes_per_weight = 11, bytes_per_row = 20;  // of code, about

}  // namespace

// Short displacements reach 128 bytes to both sides, so that pointers point into the middle of the
// eight vectors of a patch's row: an instruction with a displacement of four bytes takes twice as
// long to decode on AMD's Zen 3.
int32_t Generator::patch_bias() const {
  return form_.width == Width::bits256 && form_.vectors > 4 ? 128 : 0;
}

int32_t Generator::out_bias() const {
  return form_.width == Width::bits256 && form_.rows * form_.vectors > 4 ? 128 : 0;
}

Address Generator::next(float value) {
  auto reach = code_.short_reach(sizeof(float));
  auto position = static_cast<int32_t>((stream_.size() - chunk_stream_) * sizeof(float));
  if (position - stream_base_ >= reach) {
    code_.add(values, 2 * reach);
    stream_base_ += 2 * reach;
  }
  stream_.push_back(value);
  return {values, position - stream_base_};
}

// The weights by tap from `index` on, with zeros after the last.
Address Generator::next_four(size_t index) {
  Address found = next(by_tap_[index].value);
  for (size_t i = index + 1; i < index + 4; ++i)
    stream_.push_back(i < by_tap_.size() ? by_tap_[i].value : 0);
  return found;
}

Chunk Generator::open(size_t row) {
  code_.align(line);
  Chunk chunk{code_.size(), 0, stream_.size(), row};
  chunk_stream_ = stream_.size();
  stream_base_ = code_.short_reach(sizeof(float));
  code_.add(values, stream_base_);
  if (out_bias()) code_.add(out, out_bias());
  if (form_.rows > 3) code_.lea(row_stride_3, {row_stride, 0, row_stride, 2});
  if (form_.rows > 5) code_.lea(row_stride_5, {row_stride, 0, row_stride, 4});
  if (form_.rows > 7) code_.lea(row_stride_7, {row_stride_3, 0, row_stride, 4});
  return chunk;
}

void Generator::close(Chunk& chunk) {
  code_.vzeroupper();
  code_.ret();
  chunk.bytes = code_.size() - chunk.code;
}

std::vector<Chunk> Generator::add(const Block& block) {
  for (int32_t offset : *block.offsets)
    require(offset >= -max_tap_offset && offset <= max_tap_offset, "a tap lies too far away for generated code");
  for (size_t i = 0; i < block.weights.size(); ++i)
    require(block.weights[i].row < block.rows && block.weights[i].tap < block.offsets->size() &&
                (i == 0 || block.weights[i - 1].row <= block.weights[i].row),
            "a weight belongs to a row and a tap of its block, in order of rows");
  require(block.ahead.in >= 0 && block.ahead.in <= max_ahead, "code prefetches what lies nearby");
  require(form_.width == Width::bits512 || (!block.ahead.in && !block.ahead.out),
          "code for AVX2 prefetches no values");
  require(!block.residual || form_.channels > 1, "code for single channels adds no residual");
  std::vector<Chunk> chunks;
  if (form_.channels == 1)
    add_single(block, chunks);
  else
    add_grouped(block, chunks);
  return chunks;
}

// One function for many channels, which walks through `out`.
void Generator::add_single(const Block& block, std::vector<Chunk>& chunks) {
  const NonZero* begin = block.weights.data();
  const NonZero* last = begin + block.weights.size();
  for (size_t row = 0; row < block.rows; ++row) {
    if (chunks.empty() || code_.size() - chunks.back().code > long_code) {
      if (!chunks.empty()) close(chunks.back());
      chunks.push_back(open(row));
      if (prefetches(block)) code_.mov(next_code, {Reg::rsp, 8});
    }
    const NonZero* end = begin;
    while (end != last && end->row == row) ++end;
    if (begin != end || block.bias || block.last) {
      begin_sums(block, row, 1);
      add_alone(block, chunks.back(), begin, end);
      finish_sums(block, 1);
    }
    code_.add(out, out_stride);
    begin = end;
  }
  close(chunks.back());
}

// A function for each group of channels, all of which but the last are full: the share of taps that
// some channel of a group has a weight for, which are loaded, grows ever less with its size.
void Generator::add_grouped(const Block& block, std::vector<Chunk>& chunks) {
  const NonZero* begin = block.weights.data();
  const NonZero* last = begin + block.weights.size();
  for (size_t row = 0, rows; row < block.rows; row += rows) {
    rows = std::min(form_.channels, block.rows - row);
    const NonZero* end = begin;
    while (end != last && end->row < row + rows) ++end;
    if (begin == end && !block.bias && !block.last) continue;
    Chunk chunk = open(row);
    if (block.patches) {  // the next function is about as long as this one
      auto weights = static_cast<size_t>(end - begin);
      chunk.code_lines =
          (bytes_per_weight * weights + bytes_per_row * rows) / line / block.patches + 1;
      chunk.stream_lines = sizeof(float) * (weights + rows) / line / block.patches + 1;
      code_.mov(next_code, {Reg::rsp, 8});
      code_.mov(next_stream, {Reg::rsp, 16});
    }
    int32_t first = stream_base_;
    size_t loop = code_.size();
    begin_sums(block, row, rows);
    add_together(block, chunk, rows, begin, end);
    finish_sums(block, rows);
    auto bytes = static_cast<int32_t>(form_.vectors) * vector_bytes();
    code_.add(in, bytes);
    code_.add(out, bytes);
    if (chunk.code_lines) {
      code_.add(next_code, static_cast<int32_t>(chunk.code_lines * line));
      code_.add(next_stream, static_cast<int32_t>(chunk.stream_lines * line));
    }
    if (stream_base_ != first) code_.add(values, first - stream_base_);
    code_.add(patches, -1);
    code_.jnz(loop);
    close(chunk);
    chunks.push_back(chunk);
    begin = end;
  }
}

void Generator::begin_sums(const Block& block, size_t row, size_t rows) {
  size_t count = form_.rows * form_.vectors;
  if (!block.bias && rows > 1) code_.mov(at, out);
  for (size_t c = 0; c < rows; ++c) {
    if (block.bias) {
      code_.vbroadcastss(sum(c, 0), next(block.bias[row + c]));
      for (size_t i = 1; i < count; ++i) code_.vmovaps(sum(c, i), sum(c, 0));
      continue;
    }
    for (size_t i = 0; i < count; ++i)
      code_.vmovups(sum(c, i),
                    {rows > 1 ? at : out, static_cast<int32_t>(i) * vector_bytes() - out_bias()});
    if (c + 1 < rows) code_.add(at, out_stride);
  }
}

void Generator::finish_sums(const Block& block, size_t rows) {
  size_t count = form_.rows * form_.vectors;
  if (block.last && block.residual) add_residual(rows);
  if (block.last) clamp(rows * count, block.low, block.high);
  if (rows > 1) code_.mov(at, out);
  for (size_t c = 0; c < rows; ++c) {
    for (size_t i = 0; i < count; ++i)
      code_.vmovups({rows > 1 ? at : out, static_cast<int32_t>(i) * vector_bytes() - out_bias()},
                    sum(c, i));
    if (c + 1 < rows) code_.add(at, out_stride);
  }
}

void Generator::add_residual(size_t rows) {
  code_.mov(at, out);
  for (size_t c = 0; c < rows; ++c) {
    for (size_t v = 0; v < form_.vectors; ++v)
      code_.vaddps(sum(c, v), sum(c, v),
                   {at, static_cast<int32_t>(v) * vector_bytes(), residual, 1});
    if (c + 1 < rows) code_.add(at, out_stride);
  }
}

// The second operand of both instructions is what they give for a NaN: it passes through.
void Generator::clamp(size_t count, float low, float high) {
  Vector bound{static_cast<uint8_t>(form_.channels * form_.rows * form_.vectors)};
  if (low > -std::numeric_limits<float>::infinity() || std::isnan(low)) {
    code_.vbroadcastss(bound, next(low));
    for (size_t i = 0; i < count; ++i) code_.vmaxps(sum(0, i), bound, sum(0, i));
  }
  if (high < std::numeric_limits<float>::infinity() || std::isnan(high)) {
    code_.vbroadcastss(bound, next(high));
    for (size_t i = 0; i < count; ++i) code_.vminps(sum(0, i), bound, sum(0, i));
  }
}

int32_t Generator::displacement(const Block& block, size_t tap, int32_t beyond) const {
  return 4 * (*block.offsets)[tap] + beyond;
}

// Where a vector of the patch lies, from `at`. The row strides' multiples are 1 to 7.
Address Generator::patch(size_t row, size_t vector) const {
  auto disp = static_cast<int32_t>(vector) * vector_bytes() - patch_bias();
  switch (row) {
    case 0: return {at, disp};
    case 1: return {at, disp, row_stride, 1};
    case 2: return {at, disp, row_stride, 2};
    case 3: return {at, disp, row_stride_3, 1};
    case 4: return {at, disp, row_stride, 4};
    case 5: return {at, disp, row_stride_5, 1};
    case 6: return {at, disp, row_stride_3, 2};
    default: return {at, disp, row_stride_7, 1};
  }
}

// Where, among the vectors of tap `a`, the vector (row, vector) of tap `b` lies, if it does.
std::optional<size_t> Generator::position(const Block& block, const NonZero& a, const NonZero& b,
                                          size_t row, size_t vector) const {
  auto lanes = static_cast<int64_t>(form_.lanes()), vectors = static_cast<int64_t>(form_.vectors);
  int64_t apart = int64_t{(*block.offsets)[b.tap]} - (*block.offsets)[a.tap];
  for (size_t r = 0; r < form_.rows; ++r) {
    int64_t from = apart + static_cast<int64_t>(vector) * lanes +
                   (static_cast<int64_t>(row) - static_cast<int64_t>(r)) * form_.row_stride;
    if (from >= 0 && from % lanes == 0 && from / lanes < vectors)
      return r * form_.vectors + static_cast<size_t>(from / lanes);
  }
  return std::nullopt;
}

// Whether the patches of two taps have vectors in common: of neighbours in a kernel's row where images
// are interleaved, of those in a column where a patch has several rows.
bool Generator::overlap(const Block& block, const NonZero& a, const NonZero& b) const {
  for (size_t row : {size_t{0}, form_.rows - 1})
    for (size_t vector : {size_t{0}, form_.vectors - 1})
      if (position(block, a, b, row, vector)) return true;
  return false;
}

// Taps whose patches overlap are a group, in which each vector is loaded once.
void Generator::add_alone(const Block& block, Chunk& chunk, const NonZero* begin,
                          const NonZero* end) {
  constexpr size_t most = 4, nearby = 16;  // of a group; how far its taps are searched
  constexpr Vector input{12}, four{13};
  auto weight = [](size_t k) { return Vector{static_cast<uint8_t>(8 + k)}; };
  by_tap_.assign(begin, end);
  std::vector<size_t> sizes;
  for (size_t i = 0; i < by_tap_.size(); i += sizes.back()) {
    NonZero* group = by_tap_.data() + i;
    size_t size = 1, stop = std::min(nearby, by_tap_.size() - i);
    for (size_t j = 1; j < stop && size < most; ++j)
      if (overlap(block, group[size - 1], group[j])) {
        std::rotate(group + size, group + j, group + j + 1);
        ++size;
      }
    sizes.push_back(size);
  }
  size_t i = 0;
  for (size_t size : sizes) {
    const NonZero* group = by_tap_.data() + i;
    for (size_t k = 0; k < size; ++k, ++i) {
      if (i % 4 == 0) code_.vbroadcastf128(four, next_four(i));
      code_.vpermilps(weight(k), four, i % 4);
    }
    if (prefetches(block) &&  // of the next function, which is about as long as this one
        chunk.code_lines * line * block.patches < code_.size() - chunk.code)
      code_.prefetcht1({next_code, static_cast<int32_t>(chunk.code_lines++ * line)});
    code_.lea(at, {in, displacement(block, group[0].tap, patch_bias())});
    for (size_t k = 0; k < size; ++k)
      for (size_t r = 0; r < form_.rows; ++r)
        for (size_t v = 0; v < form_.vectors; ++v) {
          auto place = [&](size_t other) { return position(block, group[other], group[k], r, v); };
          size_t other = 0;
          while (other < k && !place(other)) ++other;
          if (other < k) continue;  // that one read it
          Address from = patch(r, v);
          from.disp += displacement(block, group[k].tap, 0) - displacement(block, group[0].tap, 0);
          while (++other < size && !place(other)) {
          }
          if (other == size) {
            code_.vfmadd231ps(sum(0, r * form_.vectors + v), weight(k), from);
            continue;
          }
          code_.vmovups(input, from);
          for (other = k; other < size; ++other)
            if (std::optional<size_t> found = place(other))
              code_.vfmadd231ps(sum(0, *found), weight(other), input);
        }
  }
}

// What a patch prefetches, beside its taps' input: lines of the next function's code and stream and,
// for each row, what the next patch writes and adds.
struct Generator::Prefetches {
  size_t code, stream, rows;
  bool writes, adds;

  Prefetches(const Block& block, const Chunk& chunk, size_t row_count)
      : code(chunk.code_lines),
        stream(chunk.stream_lines),
        rows(block.ahead.out ? row_count : 0),
        writes(block.bias),
        adds(block.last && block.residual) {}
  size_t count() const { return code + stream + (writes || adds ? rows : 0); }
};

void Generator::prefetch(const Prefetches& wanted, size_t number) {
  auto take = [&](size_t count) {
    if (number < count) return true;
    number -= count;
    return false;
  };
  if (take(wanted.code)) {
    code_.prefetcht1({next_code, static_cast<int32_t>(number * line)});
  } else if (take(wanted.stream)) {
    code_.prefetcht1({next_stream, static_cast<int32_t>(number * line)});
  } else {
    if (number)
      code_.add(at, out_stride);
    else
      code_.mov(at, out);
    auto next_patch = static_cast<int32_t>(form_.vectors) * vector_bytes();
    if (wanted.writes) code_.prefetchw({at, next_patch});
    if (wanted.adds) code_.prefetcht0({at, next_patch, residual, 1});
  }
}

void Generator::add_together(const Block& block, const Chunk& chunk, size_t rows,
                             const NonZero* begin, const NonZero* end) {
  counts_.assign(block.offsets->size() + 1, 0);
  for (const NonZero* w = begin; w != end; ++w) ++counts_[w->tap + 1];
  for (size_t tap = 1; tap < counts_.size(); ++tap) counts_[tap] += counts_[tap - 1];
  by_tap_.resize(static_cast<size_t>(end - begin));
  for (const NonZero* w = begin; w != end; ++w) by_tap_[counts_[w->tap]++] = *w;

  const Prefetches wanted(block, chunk, rows);
  // The functions of a block take turns: each prefetches the input of some of the taps it reads.
  size_t functions = (block.rows + form_.channels - 1) / form_.channels;
  size_t turn = chunk.row / form_.channels;
  size_t prefetched = 0, lines = wanted.count();
  bool wide = form_.width == Width::bits512;
  auto first = static_cast<uint8_t>(form_.channels * form_.vectors);  // of the input's registers
  Vector weight{static_cast<uint8_t>(first + form_.vectors)}, four{15};
  auto input = [&](size_t v) { return Vector{static_cast<uint8_t>(first + v)}; };
  for (size_t i = 0; i < by_tap_.size();) {
    size_t tap = by_tap_[i].tap, stop = i;
    while (stop < by_tap_.size() && by_tap_[stop].tap == tap) ++stop;
    bool shared = wide || stop - i > 1;
    auto from = [&](size_t v) {
      return Address{in, displacement(block, tap, static_cast<int32_t>(v) * vector_bytes())};
    };
    if (shared)
      for (size_t v = 0; v < form_.vectors; ++v) code_.vmovups(input(v), from(v));
    if (block.ahead.in && tap % functions == turn)
      code_.prefetcht1({in, displacement(block, tap, block.ahead.in)});
    for (; i < stop; ++i) {
      // Evenly among the multiplications, which take longer than a line from memory.
      for (; prefetched * by_tap_.size() < lines * i; ++prefetched) prefetch(wanted, prefetched);
      size_t channel = by_tap_[i].row - chunk.row;
      Address value{};
      if (form_.by_four) {
        if (i % 4 == 0) code_.vbroadcastf128(four, next_four(i));
        code_.vpermilps(weight, four, i % 4);
      } else {
        value = next(by_tap_[i].value);
        if (!wide) code_.vbroadcastss(weight, value);
      }
      for (size_t v = 0; v < form_.vectors; ++v)
        if (wide)
          code_.vfmadd231ps_broadcast(sum(channel, v), input(v), value);
        else if (shared)
          code_.vfmadd231ps(sum(channel, v), weight, input(v));
        else
          code_.vfmadd231ps(sum(channel, v), weight, from(v));
    }
  }
}

}  // namespace skinny::jit
