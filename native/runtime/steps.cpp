#include "steps.h"

#include <algorithm>
#include <cstring>

namespace skinny {

void Linear::run(const Place& place) const {
  size_t begin = share(weights->rows(), place.rank, place.size);
  size_t end = share(weights->rows(), place.rank + 1, place.size);
  const float* x = place.at(in.offset);
  float* y = place.at(out.offset);
  if (place.n == 1 && weights->readable_columns() != weights->cols()) {
    std::memcpy(place.scratch, x, weights->cols() * sizeof(float));
    std::memset(place.scratch + weights->cols(), 0,
                (weights->readable_columns() - weights->cols()) * sizeof(float));
    x = place.scratch;
  }
  weights->run(begin, end, x, place.n, bias.data(), y);
  if (activation != Activation::none)
    SKINNY_CHOOSE(pointwise).activate(activation, a, b, y + begin * place.n, y + begin * place.n,
                                      (end - begin) * place.n);
}

size_t Linear::scratch(size_t n) const { return n == 1 ? weights->readable_columns() : 0; }

void Pool::prepare() {
  auto count = static_cast<int32_t>(columns.begin.size());
  const int32_t *begin = columns.begin.data(), *end = columns.end.data();
  windows = {begin, end, columns.scale.data(), columns.step, count, count, count, 0, 0, {}};
  if (count < 4 || columns.step != 1) return;
  int32_t length = end[1] - begin[1];  // the first one may be cut short by the margin
  int32_t stride = begin[2] - begin[1];
  if (length < 2 || length > Windows::longest || (stride != 1 && stride != 2)) return;
  windows.length = length;
  windows.stride = stride;
  bool whole = end[0] - begin[0] == length && begin[1] - begin[0] == stride;
  windows.regular = whole ? 0 : 1;
  int32_t i = windows.regular;
  for (int32_t seen = length; i < count; ++i) {
    int32_t entries = end[i] - begin[i];
    if (begin[i] - begin[1] != (i - 1) * stride || entries < 1 || entries > seen) break;
    seen = entries;
    for (int32_t k = 0; k < seen; ++k) windows.whole[k] = i + 1;
  }
  windows.irregular = i;
}

void Pooling::run(const Place& place) const {
  // Shared by (channel, row): a network's last pooling may have few of either.
  size_t lines = out.channels * out.height;
  clear_margins(out, place, share(out.channels, place.rank, place.size),
                share(out.channels, place.rank + 1, place.size));
  size_t begin = share(lines, place.rank, place.size);
  size_t end = share(lines, place.rank + 1, place.size);
  size_t channel = begin / out.height, y = begin % out.height;
  for (size_t line = begin; line < end; ++line, ++y) {
    if (y == out.height) ++channel, y = 0;
    auto row = [&](size_t i) { return place.at(in.at(channel, i)); };
    pool->run(y, row, in.width, place.n, place.scratch, place.at(out.at(channel, y)));
  }
}

size_t Pooling::scratch(size_t n) const { return in.width * n; }

void Sample::run(const Place& place) const {
  size_t n = place.n;
  auto height = static_cast<int64_t>(in.height), width = static_cast<int64_t>(in.width);
  size_t begin = share(out.channels, place.rank, place.size);
  size_t end = share(out.channels, place.rank + 1, place.size);
  clear_margins(out, place, begin, end);
  for (size_t channel = begin; channel < end; ++channel) {
    size_t source = channel / row.size(), phase = channel % row.size();
    for (size_t y = 0; y < out.height; ++y) {
      float* to = place.at(out.at(channel, y));
      int64_t from_y = static_cast<int64_t>(y) * stride_y + row[phase];
      if (from_y < 0 || from_y >= height) {
        std::memset(to, 0, out.width * n * sizeof(float));
        continue;
      }
      const float* from = place.at(in.at(source, static_cast<size_t>(from_y)));
      // Columns [low, high) have a source.
      int64_t low = column[phase] < 0 ? (-column[phase] + stride_x - 1) / stride_x : 0;
      int64_t high = (width - column[phase] + stride_x - 1) / stride_x;
      low = std::min<int64_t>(low, static_cast<int64_t>(out.width));
      high = std::clamp<int64_t>(high, low, static_cast<int64_t>(out.width));
      auto first = static_cast<size_t>(low), last = static_cast<size_t>(high);
      std::memset(to, 0, first * n * sizeof(float));
      std::memset(to + last * n, 0, (out.width - last) * n * sizeof(float));
      if (stride_x == 1 && last > first) {
        std::memcpy(to + first * n, from + static_cast<size_t>(low + column[phase]) * n,
                    (last - first) * n * sizeof(float));
      } else if (n == 1) {
        for (int64_t x = low; x < high; ++x) to[x] = from[x * stride_x + column[phase]];
      } else {
        for (int64_t x = low; x < high; ++x)
          std::memcpy(to + static_cast<size_t>(x) * n,
                      from + static_cast<size_t>(x * stride_x + column[phase]) * n,
                      n * sizeof(float));
      }
    }
  }
}

void Activate::run(const Place& place) const {
  size_t begin = share(in.size(), place.rank, place.size) * place.n;
  size_t end = share(in.size(), place.rank + 1, place.size) * place.n;
  SKINNY_CHOOSE(pointwise).activate(activation, a, b, place.at(in.offset) + begin,
                                    place.at(out.offset) + begin, end - begin);
}

void Scale::run(const Place& place) const {
  size_t begin = share(in.channels, place.rank, place.size);
  size_t end = share(in.channels, place.rank + 1, place.size);
  for (size_t c = begin; c < end; ++c)
    SKINNY_CHOOSE(pointwise).scale(place.at(in.at(c)), place.at(out.at(c)),
                                   in.height * in.width * place.n, scale[c], shift[c]);
}

void Normalise::run(const Place& place) const {
  size_t floats = in.height * in.width * place.n;
  // In chunks, so that a few channels of one stay in the first-level cache.
  constexpr size_t chunk = 64;
  size_t chunks = (floats + chunk - 1) / chunk;
  size_t begin = share(chunks, place.rank, place.size) * chunk;
  size_t end = std::min(floats, share(chunks, place.rank + 1, place.size) * chunk);
  if (begin >= end) return;
  SKINNY_CHOOSE(pointwise).lrn(place.at(in.offset) + begin, place.at(out.offset) + begin,
                               end - begin, in.channels, floats, size, alpha, beta, k);
}

void Add::run(const Place& place) const {
  size_t rows = shape[0] * shape[1] * shape[2], n = place.n;
  size_t begin = share(rows, place.rank, place.size);
  size_t end = share(rows, place.rank + 1, place.size);
  const PointwiseKernels& kernels = SKINNY_CHOOSE(pointwise);
  bool plain = left_stride[3] == 1 && right_stride[3] == 1;
  for (size_t row = begin; row < end; ++row) {
    size_t k = row % shape[2], j = row / shape[2] % shape[1], i = row / shape[2] / shape[1];
    const float* x = place.at(left.offset + i * left_stride[0] + j * left_stride[1] +
                              k * left_stride[2]);
    const float* y = place.at(right.offset + i * right_stride[0] + j * right_stride[1] +
                              k * right_stride[2]);
    float* to = place.at(out.offset + row * shape[3]);
    if (plain) {
      kernels.add(x, y, to, shape[3] * n);
    } else {
      for (size_t l = 0; l < shape[3]; ++l)
        kernels.add(x + l * left_stride[3] * n, y + l * right_stride[3] * n, to + l * n, n);
    }
  }
}

void Concat::run(const Place& place) const {
  size_t begin = share(outer, place.rank, place.size);
  size_t end = share(outer, place.rank + 1, place.size);
  size_t total = out.size() / outer, done = 0;
  for (const View& part : in) {
    size_t each = part.size() / outer;
    for (size_t i = begin; i < end; ++i)
      std::memcpy(place.at(out.offset + i * total + done), place.at(part.offset + i * each),
                  each * place.n * sizeof(float));
    done += each;
  }
}

void Softmax::run(const Place& place) const {
  size_t begin = share(outer, place.rank, place.size);
  size_t end = share(outer, place.rank + 1, place.size);
  for (size_t i = begin; i < end; ++i)
    SKINNY_CHOOSE(pointwise).softmax(place.at(in.offset + i * axis * inner),
                                     place.at(out.offset + i * axis * inner), axis,
                                     inner * place.n, log);
}

}  // namespace skinny
