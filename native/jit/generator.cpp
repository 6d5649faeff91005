#include "generator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "registers.h"
#include "require.h"

namespace skinny::jit {
namespace {

constexpr size_t bytes_per_weight = 11, bytes_per_row = 20;  // of code, about
// Complete sums of so many channels, at least, are clamped and stored between the taps of others:
// a bound is loaded once for all of them.
constexpr size_t stored_at_once = 4;
// Taps are read channel by channel where less than one weight in so many is a non-zero.
constexpr size_t few_of = 4;

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
    add_together(block, chunk, rows, begin, end);
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

// The sums of a channel: of its bias, or those that lie at `from`.
void Generator::begin_sum(const Block& block, size_t row, size_t channel, Reg from) {
  size_t count = form_.rows * form_.vectors;
  if (block.bias) code_.vbroadcastss(sum(channel, 0), next(block.bias[row]));
  for (size_t i = 0; i < count; ++i)
    if (!block.bias)
      code_.vmovups(sum(channel, i), {from, static_cast<int32_t>(i) * vector_bytes() - out_bias()});
    else if (i)
      code_.vmovaps(sum(channel, i), sum(channel, 0));
}

void Generator::store_sum(size_t channel, Reg to) {
  for (size_t i = 0; i < form_.rows * form_.vectors; ++i)
    code_.vmovups({to, static_cast<int32_t>(i) * vector_bytes() - out_bias()}, sum(channel, i));
}

// The second operand of both instructions is what they give for a NaN: it passes through.
void Generator::clamp(size_t first, size_t count, float low, float high) {
  Vector bound{static_cast<uint8_t>(form_.channels * form_.rows * form_.vectors)};
  if (low > -std::numeric_limits<float>::infinity() || std::isnan(low)) {
    code_.vbroadcastss(bound, next(low));
    for (size_t i = first; i < first + count; ++i) code_.vmaxps(sum(0, i), bound, sum(0, i));
  }
  if (high < std::numeric_limits<float>::infinity() || std::isnan(high)) {
    code_.vbroadcastss(bound, next(high));
    for (size_t i = first; i < first + count; ++i) code_.vminps(sum(0, i), bound, sum(0, i));
  }
}

int32_t Generator::displacement(const Block& block, size_t tap, int32_t beyond) const {
  return 4 * (*block.offsets)[tap] + beyond;
}

// The taps of the first channel, then those of the second that are not among them, and so on: sums
// become complete one after the other, and storing them, which takes two cycles for a vector of 512
// bits, goes on beside multiplications. By tap with AVX2, and where a few channels have most of the
// taps: that is no gain there, and processors prefetch what is read in order.
void Generator::order_by_tap(const Block& block, const Chunk& chunk, size_t rows,
                             const NonZero* begin, const NonZero* end) {
  ends_.assign(block.offsets->size() + 1, 0);
  for (const NonZero* w = begin; w != end; ++w) ++ends_[w->tap + 1];
  std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
  sorted_.resize(static_cast<size_t>(end - begin));
  for (const NonZero* w = begin; w != end; ++w) sorted_[ends_[w->tap]++] = *w;
  by_tap_.clear();
  taps_.clear();
  read_.assign(block.offsets->size(), false);
  bool by_channel = form_.width == Width::bits512 &&
                    sorted_.size() * few_of < rows * read_.size();
  const NonZero* first_read = by_channel ? begin : sorted_.data();
  for (const NonZero* w = first_read; w != first_read + sorted_.size(); ++w) {
    if (read_[w->tap]) continue;
    read_[w->tap] = true;
    size_t first = w->tap ? ends_[w->tap - 1] : 0, stop = ends_[w->tap];
    size_t complete = by_channel ? w->row - chunk.row : 0;
    taps_.push_back({by_tap_.size(), by_tap_.size() + stop - first, complete});
    by_tap_.insert(by_tap_.end(), sorted_.data() + first, sorted_.data() + stop);
  }
}

void Generator::add_together(const Block& block, const Chunk& chunk, size_t rows,
                             const NonZero* begin, const NonZero* end) {
  order_by_tap(block, chunk, rows, begin, end);
  begun_.assign(rows, !block.bias);
  if (!block.bias) code_.mov(at, out);
  for (size_t c = 0; !block.bias && c < rows; ++c) {
    begin_sum(block, chunk.row + c, c, at);
    if (c + 1 < rows) code_.add(at, out_stride);
  }
  size_t finished = 0;
  for (const TapWeights& own : taps_) {
    if (own.complete >= finished + stored_at_once) {
      finish_sums(block, chunk, finished, own.complete);
      finished = own.complete;
    }
    add_tap(block, chunk, own);
  }
  finish_sums(block, chunk, finished, rows);
}

void Generator::add_tap(const Block& block, const Chunk& chunk, const TapWeights& own) {
  // The functions of a block take turns: each prefetches the input of some of the taps it reads.
  size_t functions = (block.rows + form_.channels - 1) / form_.channels;
  size_t turn = chunk.row / form_.channels, tap = by_tap_[own.begin].tap;
  bool wide = form_.width == Width::bits512, shared = wide || own.end - own.begin > 1;
  auto first = static_cast<uint8_t>(form_.channels * form_.vectors);  // of the input's registers
  Vector weight{static_cast<uint8_t>(first + form_.vectors)}, four{15};
  auto input = [&](size_t v) { return Vector{static_cast<uint8_t>(first + v)}; };
  auto from = [&](size_t v) {
    return Address{in, displacement(block, tap, static_cast<int32_t>(v) * vector_bytes())};
  };
  if (shared)
    for (size_t v = 0; v < form_.vectors; ++v) code_.vmovups(input(v), from(v));
  if (block.ahead.in && tap % functions == turn)
    code_.prefetcht1({in, displacement(block, tap, block.ahead.in)});
  for (size_t i = own.begin; i < own.end; ++i) {
    prefetch_next(chunk, i);
    size_t channel = by_tap_[i].row - chunk.row;
    if (!begun_[channel]) begin_sum(block, by_tap_[i].row, channel, out);
    begun_[channel] = true;
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

// Lines of the next function's code and stream, evenly among the multiplications, which take longer
// than a line from memory. done: multiplications so far.
void Generator::prefetch_next(const Chunk& chunk, size_t done) {
  size_t lines = chunk.code_lines + chunk.stream_lines, all = by_tap_.size();
  auto due = [&](size_t count) { return (lines * count + all - 1) / all; };
  for (size_t number = done ? due(done - 1) : 0; number < due(done); ++number)
    if (number < chunk.code_lines)
      code_.prefetcht1({next_code, static_cast<int32_t>(number * line)});
    else
      code_.prefetcht1({next_stream, static_cast<int32_t>((number - chunk.code_lines) * line)});
}

// Some channels after those whose sums were finished before.
void Generator::finish_sums(const Block& block, const Chunk& chunk, size_t first, size_t end) {
  const size_t vectors = form_.vectors;
  const bool adds = block.last && block.residual;
  for (size_t c = first; c < end; ++c)
    if (!begun_[c]) begin_sum(block, chunk.row + c, c, out);
  if (block.last && !adds) clamp(first * vectors, (end - first) * vectors, block.low, block.high);
  for (size_t c = first; c < end; ++c) {
    if (c)
      code_.add(at, out_stride);
    else
      code_.mov(at, out);
    for (size_t v = 0; adds && v < vectors; ++v)
      code_.vaddps(sum(c, v), sum(c, v), {at, static_cast<int32_t>(v) * vector_bytes(), residual, 1});
    if (adds) clamp(c * vectors, vectors, block.low, block.high);
    store_sum(c, at);
    // Of the next patch: what it writes, unless it reads it too, and what it adds.
    auto next_patch = static_cast<int32_t>(vectors) * vector_bytes();
    if (block.ahead.out && block.bias) code_.prefetchw({at, next_patch});
    if (block.ahead.out && adds) code_.prefetcht0({at, next_patch, residual, 1});
  }
}

}  // namespace skinny::jit
