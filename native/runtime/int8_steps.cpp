#include "int8_steps.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "cell_fill.h"
#include "require.h"
#include "workspace.h"

namespace skinny {
namespace {

constexpr size_t pair_sums = pairs_block * strip_vectors * pixels_at_once;  // of a strip
constexpr double ns_per_quad = 0.3;  // of a vector, VNNI

}  // namespace

ConvInt8::ConvInt8(const CellImage& source, size_t samples, size_t height, size_t width,
                   size_t first, std::vector<int32_t> offsets,
                   std::shared_ptr<const Int8Weights> weights, const Target& target,
                   const Added& added)
    : source_(source),
      samples_(samples),
      height_(height),
      width_(width),
      first_(first),
      offsets_(std::move(offsets)),
      weights_(std::move(weights)),
      target_(target),
      added_(added) {
  require(offsets_.size() == weights_->taps(), "an offset for each tap is needed");
  for (int32_t offset : offsets_) require(offset >= 0, "a tap's offset must not be negative");
  for (size_t o = 0; o < weights_->outputs(); ++o) {
    float most = 0x1p31f * std::abs(weights_->scale()[o]) + std::abs(weights_->bias()[o]);
    bounded_ = bounded_ && most * std::abs(target_.quantization.inverse()) < 0x1p31f;
  }
  size_t stride = source_.view.row_stride;
  size_t out_rows = target_.cells ? target_.cells->view.row_stride : target_.floats->strides[2];
  size_t add_rows = added_.cells    ? added_.cells->view.row_stride
                    : added_.floats ? added_.floats->strides[2]
                                    : stride;
  if (uses_int8_pairs(*weights_) && source_.view.channel_stride)
    window_ = PairWindow::make(offsets_, source_.view.channel_stride, stride, height, width);
  add_slots(stride, out_rows, add_rows);
}

// The vectors of an image, and where their lanes go: row by row; two rows of half a vector at a time;
// or all rows as one long one, with what lies between them.
void ConvInt8::add_slots(size_t stride, size_t out_rows, size_t add_rows) {
  size_t lanes = int8_kernels().lanes, whole = (height_ - 1) * stride + width_;
  bool flat = divide_up(whole, lanes) < height_ * divide_up(width_, lanes);
  bool halves = !window_ && 2 * width_ == lanes && height_ % 2 == 0 && stride > width_;
  if (halves) gap_ = static_cast<int32_t>(stride - width_);
  auto offset = [](size_t row, size_t rows, size_t position, size_t row_begin) {
    return static_cast<int32_t>(static_cast<int64_t>(row * rows + position) -
                                static_cast<int64_t>(row_begin));
  };
  auto add = [&](size_t position, size_t end) {
    size_t first = pieces_.size();
    for (size_t p = position; p < end;) {
      size_t row = p / stride, row_end = std::min(row * stride + width_, end);
      if (p < row_end) {
        size_t lane = halves ? (p - position) / stride * width_ : p - position;
        size_t lane_0 = p - lane, count = row_end - p;
        Int8Piece piece{offset(row, out_rows, lane_0, row * stride),
                        offset(row, add_rows, lane_0, row * stride),
                        static_cast<uint16_t>(lane), static_cast<uint16_t>(count)};
        Int8Piece* last = pieces_.size() > first ? &pieces_.back() : nullptr;
        if (last && last->out == piece.out && last->add == piece.add &&
            last->first + last->count == piece.first)
          last->count = static_cast<uint16_t>(last->count + piece.count);
        else
          pieces_.push_back(piece);
      }
      p = (row + 1) * stride;
    }
    if (first == pieces_.size() && !window_) return;
    slots_.push_back(static_cast<int32_t>(position));
    first_pieces_.push_back(static_cast<uint32_t>(pieces_.size()));
  };
  if (window_)
    for (size_t strip = 0; strip < window_->strips_of(window_->windows - 1).end; ++strip)
      for (size_t n = 0; n < window_->vectors(strip); ++n) {
        size_t p = window_->strip_at(strip) + n * window_->apart;
        size_t end = window_->in_rows ? p / stride * stride + width_ : whole;
        for (size_t first : {p, p + lanes}) add(first, std::min(first + lanes, end));
      }
  else if (halves)
    for (size_t y = 0; y < height_; y += 2) add(y * stride, (y + 1) * stride + width_);
  else if (flat)
    for (size_t p = 0; p < whole; p += lanes) add(p, std::min(p + lanes, whole));
  else
    for (size_t y = 0; y < height_; ++y)
      for (size_t x = 0; x < width_; x += lanes)
        add(y * stride + x, y * stride + std::min(x + lanes, width_));
}

size_t ConvInt8::last_read() const {
  auto last = static_cast<size_t>(*std::max_element(slots_.begin(), slots_.end())) +
              static_cast<size_t>(*std::max_element(offsets_.begin(), offsets_.end())) +
              int8_kernels().lanes - 1 + static_cast<size_t>(gap_);
  if (window_) last = std::max(last, window_->last_read());
  return source_.view.offset + (samples_ - 1) * source_.sample_stride + first_ + last;
}

void ConvInt8::run(const ThreadContext& context) const {
  if (target_.cells && !target_.cells->view.compact()) {
    const View& v = target_.cells->view;
    auto [begin, end] = context.partition(samples_ * v.channels);
    for (size_t i = begin; i < end; ++i)
      fill_around(context.arena + v.offset + i / v.channels * target_.cells->sample_stride +
                      i % v.channels * v.channel_stride,
                  v, target_.quantization.zero);
  }
  if (const Int8Pairs* pairs = pairs_->get()) return run_pairs(context, *pairs);
  const jit::Int8Code* code = code_->get();
  if (code && !code->ready()) code = nullptr;  // the system refused to make it executable
  size_t blocks = weights_->blocks().size(), strips = this->strips(context, code);
  size_t units = samples_ * strips, parts = this->parts(context, units, blocks);
  auto [begin, end] = context.partition(units * parts);
  for (size_t unit = begin; unit < end; ++unit) {
    size_t part = unit / units, sample = unit % units / strips, strip = unit % strips;
    Range slots = partition(slots_.size(), strip, strips);
    auto [first, last] = partition(blocks, part, parts);
    for (size_t block = first; block < last; ++block) run_block(context, sample, block, slots, code);
  }
}

// Those of generated code are long, so that it is fetched and its quads are expanded less often,
// unless threads would have few to divide.
size_t ConvInt8::strips(const ThreadContext& context, const jit::Int8Code* code) const {
  size_t few = divide_up(slots_.size(), int8_vectors);
  bool long_ones = code && (context.size == 1 || samples_ * few >= 16 * context.size);
  return long_ones ? few : divide_up(slots_.size(), int8_vectors / 2);
}

// Where there are few strips, threads divide the output channels too.
size_t ConvInt8::parts(const ThreadContext& context, size_t units, size_t blocks) const {
  if (context.size == 1) return 1;
  return std::min(blocks, std::max<size_t>(1, divide_up(4 * context.size, units)));
}

void ConvInt8::run_block(const ThreadContext& context, size_t sample, size_t block, Range slots,
                         const jit::Int8Code* code) const {
  const Int8Kernels& kernels = int8_kernels();
  const Int8Weights::Block& own = weights_->blocks()[block];
  size_t rows = own.start.size(), first = block * int8_block, count = slots.end - slots.begin;
  auto sums = reinterpret_cast<int32_t*>(context.scratch);
  jit::Int8Strip strip;
  for (size_t i = 0; i < count; ++i) strip.in[i] = input(context, sample) + slots_[slots.begin + i];
  if (target_.cells) prefetch(context, sample, first, rows, slots);
  int32_t* quads = sums + int8_vectors * int8_block * kernels.lanes;
  Int8Rows all{own.first.data(),  own.taps.data(), own.rows.data(),
               own.quads.data(),  own.start.data(), offsets_.data() + own.first_tap,
               own.rows.size(), rows, gap_};
  if (code) {
    if (code->has_ending()) return run_to_end(context, sample, block, slots, *code, strip);
    code->run(block, *weights_, strip, count, sums, quads);
  } else {
    if (own.packed()) {
      own.expand(0, own.count, 0, quads);
      all.quads = quads;
    }
    (weights_->by_tap() ? kernels.sums_by_tap : kernels.sums)(all, strip.in, count, sums);
  }
  finish(context, sample, first, rows, slots, sums);
}

// Code with an ending stores vectors where they belong; those that are not whole come into their place
// from where their sums were.
void ConvInt8::run_to_end(const ThreadContext& context, size_t sample, size_t block, Range slots,
                          const jit::Int8Code& code, jit::Int8Strip& strip) const {
  size_t lanes = int8_kernels().lanes, rows = weights_->blocks()[block].start.size();
  auto sums = reinterpret_cast<int32_t*>(context.scratch);
  auto [to, stride] = this->to(context, sample, block * int8_block);
  size_t count = slots.end - slots.begin;
  auto pieces = [&](size_t i) { return pieces_.data() + first_pieces_[slots.begin + i]; };
  auto whole = [&](size_t i) { return pieces(i)->count == lanes; };
  for (size_t i = 0; i < count; ++i) {
    strip.to[i] = whole(i) ? to + pieces(i)->out : context.scratch + i * rows * lanes;
    strip.stride[i] = sizeof(float) * (whole(i) ? stride : lanes);
  }
  code.run(block, *weights_, strip, count, sums, sums + int8_vectors * int8_block * lanes);
  for (size_t i = 0; i < count; ++i)
    if (!whole(i))
      SKINNY_CHOOSE(int8_finish)
          .place(strip.to[i], target_.cells ? rows / 4 : rows, pieces(i),
                 static_cast<size_t>(pieces(i + 1) - pieces(i)), to, stride);
}

// A window of cells is unpacked, and its strips are computed one after the other.
void ConvInt8::run_pairs(const ThreadContext& context, const Int8Pairs& pairs) const {
  const PairWindow& w = *window_;
  auto sums = reinterpret_cast<int32_t*>(context.scratch);
  auto planes = reinterpret_cast<uint16_t*>(context.scratch + pair_sums);
  size_t blocks = pairs.blocks(), units = samples_ * w.windows;
  size_t parts = this->parts(context, units, blocks), unpacked = units;
  auto [begin, end] = context.partition(units * parts);
  for (size_t i = begin; i < end; ++i) {
    size_t unit = i / parts, sample = unit / w.windows, window = unit % w.windows;
    auto [first, last] = partition(blocks, i % parts, parts);
    if (unit != unpacked) w.unpack(window, input(context, sample), planes);
    unpacked = unit;
    Range strips = w.strips_of(window);
    for (size_t strip = strips.begin; strip < strips.end; ++strip) {
      size_t vectors = w.vectors(strip), slot = 2 * w.vectors_before(strip);
      Range slots{slot, slot + 2 * vectors};
      const uint16_t* from = planes + w.strip_at(strip) - w.strip_at(strips.begin);
      for (size_t block = first; block < last; ++block) {
        size_t channel = block * pairs_block, rows = pairs.rows(block);
        if (target_.cells) prefetch(context, sample, channel, rows, slots);
        pairs.run(block, from, vectors, w.apart, sums);
        finish(context, sample, channel, rows, slots, sums);
      }
    }
  }
}

const float* ConvInt8::input(const ThreadContext& context, size_t sample) const {
  return context.arena + source_.view.offset + sample * source_.sample_stride + first_;
}

// Where the first pixel of an output channel, or of four, is stored, and how far the next one is.
std::pair<float*, size_t> ConvInt8::to(const ThreadContext& context, size_t sample,
                                       size_t channel) const {
  if (target_.cells)
    return {context.arena + sample * target_.cells->sample_stride +
                target_.cells->view.at(channel / 4),
            target_.cells->view.channel_stride};
  return {target_.floats->to(context) + sample * target_.floats->strides[0] +
              channel * target_.floats->strides[1],
          target_.floats->strides[1]};
}

// What becomes of the sums of output channels [first, first + rows).
void ConvInt8::finish(const ThreadContext& context, size_t sample, size_t first, size_t rows,
                      Range slots, const int32_t* sums) const {
  Int8Output output{};
  output.scale = weights_->scale() + first;
  output.bias = weights_->bias() + first;
  output.channels = rows;
  output.cells = target_.cells.has_value();
  output.inverse = target_.quantization.inverse();
  output.zero = target_.quantization.zero;
  output.bounded = bounded_;
  output.low = target_.low;
  output.high = target_.high;
  output.add_scale = added_.quantization.scale;
  output.add_zero = added_.quantization.zero;
  std::tie(output.to, output.to_stride) = to(context, sample, first);
  if (added_.cells) {
    output.add = Int8Output::Add::cells;
    output.from = context.arena + sample * added_.cells->sample_stride +
                  added_.cells->view.at(first / 4);
    output.from_stride = added_.cells->view.channel_stride;
  }
  if (added_.floats) {
    output.add = Int8Output::Add::floats;
    output.from_stride = added_.floats->strides[1];
    output.from = added_.floats->from(context) + sample * added_.floats->strides[0] +
                  first * output.from_stride;
  }
  SKINNY_CHOOSE(int8_finish)
      .run(sums, rows * int8_kernels().lanes, output, pieces_.data(),
           first_pieces_.data() + slots.begin, slots.end - slots.begin);
}

// What the cells of a block are added to, and where they are stored, comes into the cache while its
// sums are computed.
void ConvInt8::prefetch(const ThreadContext& context, size_t sample, size_t channel, size_t rows,
                        Range slots) const {
  const View& out = target_.cells->view;
  const float* to = this->to(context, sample, channel).first;
  const float* from = !added_.cells ? nullptr
                                    : context.arena + sample * added_.cells->sample_stride +
                                          added_.cells->view.at(channel / 4);
  size_t quads = divide_up(rows, 4);
  for (size_t i = slots.begin; i < slots.end; ++i) {
    if (first_pieces_[i] == first_pieces_[i + 1]) continue;
    const Int8Piece& piece = pieces_[first_pieces_[i]];
    for (size_t q = 0; q < quads; ++q)
      __builtin_prefetch(to + piece.out + piece.first + q * out.channel_stride, 1);
    for (size_t q = 0; from && q < quads; ++q)
      __builtin_prefetch(from + piece.add + piece.first + q * added_.cells->view.channel_stride);
  }
}

size_t ConvInt8::scratch(size_t) const {
  size_t quads = int8_vectors * int8_block * int8_kernels().lanes + weights_->most_packed();
  return window_ ? std::max(quads, pair_sums + window_->floats()) : quads;
}

double ConvInt8::work() const {
  double quads = static_cast<double>(weights_->quads() + 12 * weights_->outputs());
  return ns_per_quad * quads * static_cast<double>(samples_ * slots_.size());
}

size_t ConvInt8::code_of_few_vectors() const {
  constexpr size_t few = 4;
  return samples_ * slots_.size() > few ? 0 : jit::Int8Code::estimate(*weights_);
}

void ConvInt8::generate(size_t, size_t most, jit::CodeWriter& writer) const {
  if (!code_->begin()) return;
  if (window_)
    pairs_->set(Int8Pairs::make(*weights_, offsets_, *window_, most));
  else
    code_->set(jit::Int8Code::make(*weights_, offsets_, gap_, ending(), most, writer));
}

// What generated code makes of the sums itself.
std::optional<jit::Int8Ending> ConvInt8::ending() const {
  const Quantization& q = target_.quantization;
  auto zero = static_cast<float>(q.zero);
  if (added_.cells || added_.floats) return std::nullopt;
  bool byte = target_.low == -zero && target_.high == 255 - zero;
  if (target_.cells && !(byte && weights_->outputs() % 4 == 0)) return std::nullopt;
  return jit::Int8Ending{target_.cells.has_value(), target_.low, target_.high,
                         q.inverse(),               q.zero,      bounded_};
}

size_t ConvInt8::code_bytes() const {
  if (const Int8Pairs* pairs = pairs_->get()) return pairs->bytes();
  return code_->get() ? code_->get()->bytes() : 0;
}

void LinearInt8::run(const ThreadContext& context) const {
  auto [begin, end] = context.partition(weights->outputs());
  weights->run(begin, end, reinterpret_cast<const uint8_t*>(context.arena + source),
               4 * source_stride, target.shape[0], low, high, target.to(context),
               target.strides[0]);
}

double LinearInt8::work() const {
  double bytes = static_cast<double>(weights->bytes());
  return 0.1 * bytes * static_cast<double>(divide_up(target.shape[0], 4));
}

}  // namespace skinny
