#include "bitmask.h"

#include <nanobind/ndarray.h>

#include <algorithm>
#include <vector>

#include "bind.h"
#include "require.h"
#include "threads.h"

namespace nb = nanobind;

namespace skinny {
namespace {

using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using BytesOut = nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void check_width(size_t width) {
  require(width == 1 || width == 2 || width == 4 || width == 8, "width must be 1, 2, 4 or 8 bytes");
}

// The entries of one thread: whole mask words, so that no two threads write the same byte.
struct Range {
  size_t begin, count, ones;
};

std::vector<Range> partition(size_t count, size_t threads) {
  constexpr size_t smallest = 1 << 16;
  size_t ranges = std::clamp<size_t>(count / smallest, 1, std::max<size_t>(threads, 1));
  size_t each = (count / ranges + 63) / 64 * 64;
  std::vector<Range> all;
  for (size_t begin = 0; begin < count; begin += each)
    all.push_back({begin, std::min(each, count - begin), 0});
  return all;
}

// Writes mask[(count + 7) / 8] for dense[count * width]; returns the number of ones. If
// signed_zeros, the top bit of an entry, its sign, is ignored.
size_t find(Bytes dense, size_t width, bool signed_zeros, BytesOut mask, size_t threads) {
  check_width(width);
  require(dense.size() % width == 0, "dense must hold whole entries");
  size_t count = dense.size() / width;
  require(mask.size() == (count + 7) / 8, "mask must hold one bit per entry");
  nb::gil_scoped_release release;
  const BitmaskKernels& kernels = SKINNY_CHOOSE(bitmask);
  const uint64_t relevant = signed_zeros ? ~(uint64_t(1) << (8 * width - 1)) : ~uint64_t(0);
  auto all = partition(count, threads);
  in_parallel(all.size(), [&](size_t i) {
    Range& own = all[i];
    own.ones = kernels.find(dense.data() + own.begin * width, width, own.count, relevant,
                          mask.data() + own.begin / 8);
  });
  size_t total = 0;
  for (const Range& own : all) total += own.ones;
  return total;
}

std::vector<Range> count_ones(const uint8_t* mask, size_t count, size_t threads) {
  const BitmaskKernels& kernels = SKINNY_CHOOSE(bitmask);
  auto all = partition(count, threads);
  in_parallel(all.size(), [&](size_t i) {
    all[i].ones = kernels.ones(mask + all[i].begin / 8, all[i].count);
  });
  return all;
}

size_t ones(Bytes mask, size_t count, size_t threads) {
  require(mask.size() == count / 8 + (count % 8 != 0), "mask must hold one bit per entry");
  nb::gil_scoped_release release;
  size_t total = 0;
  for (const Range& own : count_ones(mask.data(), count, threads)) total += own.ones;
  return total;
}

// Gather and scatter differ only in the direction of the copy.
template <class Copy>
void copy_by_mask(size_t dense_bytes, size_t value_bytes, size_t width, Bytes mask, size_t threads,
                  Copy copy) {
  check_width(width);
  require(dense_bytes % width == 0, "dense must hold whole entries");
  size_t count = dense_bytes / width;
  require(mask.size() == (count + 7) / 8, "mask must hold one bit per entry");
  nb::gil_scoped_release release;
  auto all = count_ones(mask.data(), count, threads);
  std::vector<size_t> first(all.size() + 1, 0);
  for (size_t i = 0; i < all.size(); ++i) first[i + 1] = first[i] + all[i].ones;
  require(value_bytes == first.back() * width, "values must hold one entry per one in the mask");
  in_parallel(all.size(), [&](size_t i) { copy(all[i], first[i]); });
}

void gather(Bytes dense, size_t width, Bytes mask, BytesOut values, size_t threads) {
  auto copy = [&](const Range& own, size_t to) {
    SKINNY_CHOOSE(bitmask).gather(dense.data() + own.begin * width, width, own.count,
                                  mask.data() + own.begin / 8, values.data() + to * width);
  };
  copy_by_mask(dense.size(), values.size(), width, mask, threads, copy);
}

void scatter(Bytes values, size_t width, Bytes mask, BytesOut dense, size_t threads) {
  auto copy = [&](const Range& own, size_t from) {
    SKINNY_CHOOSE(bitmask).scatter(values.data() + from * width, width, own.count,
                                   mask.data() + own.begin / 8, dense.data() + own.begin * width);
  };
  copy_by_mask(dense.size(), values.size(), width, mask, threads, copy);
}

}  // namespace

void bind_bitmask(nb::module_& m) {
  m.def("bitmask_find", &find, nb::arg("dense"), nb::arg("width"), nb::arg("signed_zeros"),
        nb::arg("mask"), nb::arg("threads"));
  m.def("bitmask_ones", &ones, nb::arg("mask"), nb::arg("count"), nb::arg("threads"));
  m.def("bitmask_gather", &gather, nb::arg("dense"), nb::arg("width"), nb::arg("mask"),
        nb::arg("values"), nb::arg("threads"));
  m.def("bitmask_scatter", &scatter, nb::arg("values"), nb::arg("width"), nb::arg("mask"),
        nb::arg("dense"), nb::arg("threads"));
}

}  // namespace skinny
