#include "strip_weights.h"

#include <algorithm>

#include "view.h"

namespace skinny {
namespace {

constexpr size_t slot_bytes = sizeof(SlotValues) + sizeof(SlotColumns);
constexpr size_t cached_bytes = 4 << 20;  // an eighth of a usual last-level cache
constexpr size_t most_lanes = 6;          // for each non-zero: beyond, slots are mostly empty

size_t most_slots(size_t count) {
  return std::min(cached_bytes / slot_bytes, most_lanes * count / strip_rows);
}

// The bits of columns [32 block, 32 block + 32) of a row.
uint32_t bits_of(const uint8_t* mask, size_t row, size_t cols, size_t block) {
  size_t column = block * strip_columns, end = std::min(cols, column + strip_columns);
  size_t bit = row * cols + column, count = end - column;
  uint64_t found = 0;
  for (size_t i = 0; i <= (bit % 8 + count - 1) / 8; ++i)
    found |= static_cast<uint64_t>(mask[bit / 8 + i]) << (8 * i);
  return static_cast<uint32_t>(found >> bit % 8 & ((uint64_t{1} << count) - 1));
}

uint32_t pairs_of(const std::array<uint32_t, strip_rows>& bits) {
  int most = 0;
  for (uint32_t row : bits) most = std::max(most, __builtin_popcount(row));
  return static_cast<uint32_t>(most + 1) / 2;
}

// The index of each row's first value; and the end of the last.
std::vector<uint64_t> first_values(const uint8_t* mask, size_t rows, size_t cols) {
  std::vector<uint64_t> first{0};
  for (size_t row = 0; row < rows; ++row) {
    int ones = 0;
    for (size_t block = 0; block < divide_up(cols, strip_columns); ++block)
      ones += __builtin_popcount(bits_of(mask, row, cols, block));
    first.push_back(first.back() + static_cast<uint64_t>(ones));
  }
  return first;
}

}  // namespace

std::optional<StripWeights> StripWeights::make(const uint8_t* mask, const float* values,
                                               size_t rows, size_t cols) {
  if (SKINNY_CHOOSE(strips).one == nullptr) return {};
  std::vector<uint64_t> first = first_values(mask, rows, cols);
  size_t count = first[rows];
  size_t limit = most_slots(count);
  StripWeights made;
  std::vector<StripBlock> own;
  std::vector<Bits> bits(divide_up(cols, strip_columns));
  for (size_t row = 0; row < rows; row += strip_rows) {
    own.clear();
    for (size_t block = 0; block < bits.size(); ++block) {
      bits[block] = {};
      for (size_t i = 0; i < std::min(strip_rows, rows - row); ++i)
        bits[block][i] = bits_of(mask, row + i, cols, block);
      if (uint32_t pairs = pairs_of(bits[block]))
        own.push_back({static_cast<uint32_t>(block), pairs});
    }
    // Inner loops of one length after each other are predicted.
    std::stable_sort(own.begin(), own.end(),
                     [](const StripBlock& a, const StripBlock& b) { return a.pairs > b.pairs; });
    size_t slots = made.values_.size();
    for (const StripBlock& block : own) slots += 2 * block.pairs;
    if (slots > limit) return {};
    made.append(own, bits, values, &first[row]);
  }
  return made;
}

void StripWeights::append(const std::vector<StripBlock>& blocks, const std::vector<Bits>& bits,
                          const float* values, const uint64_t* first) {
  std::vector<uint64_t> before(bits.size());  // values of a row in earlier blocks
  size_t slot = values_.size(), slots = slot;
  for (const StripBlock& block : blocks) slots += 2 * block.pairs;
  values_.resize(slots);
  columns_.resize(slots);
  for (size_t lane = 0; lane < strip_rows; ++lane) {
    uint64_t seen = 0;
    for (size_t block = 0; block < bits.size(); ++block) {
      before[block] = seen;
      seen += static_cast<uint64_t>(__builtin_popcount(bits[block][lane]));
    }
    size_t at = slot;
    for (const StripBlock& block : blocks) {
      uint32_t left = bits[block.block][lane];
      auto empty = static_cast<uint8_t>(~left ? __builtin_ctz(~left) : 0);
      const float* value = left ? values + first[lane] + before[block.block] : nullptr;
      for (size_t i = 0; i < 2 * block.pairs; ++i, ++at, left &= left - 1) {
        values_[at].lane[lane] = left ? *value++ : 0;
        columns_[at].lane[lane] = left ? static_cast<uint8_t>(__builtin_ctz(left)) : empty;
      }
    }
  }
  blocks_.insert(blocks_.end(), blocks.begin(), blocks.end());
  first_block_.push_back(static_cast<uint32_t>(blocks_.size()));
  first_slot_.push_back(static_cast<uint32_t>(slots));
}

size_t StripWeights::most_bytes(size_t count) {
  if (SKINNY_CHOOSE(strips).one == nullptr) return 0;
  return most_slots(count) * (slot_bytes + sizeof(StripBlock) / 2);
}

void StripWeights::run(size_t begin, size_t end, const float* x, const float* bias,
                       float* y) const {
  StripRows weights{values_.data(), columns_.data(), blocks_.data(), first_block_.data(),
                    first_slot_.data()};
  SKINNY_CHOOSE(strips).one(weights, begin, end, x, bias, y);
}

size_t StripWeights::bytes() const {
  return values_.size() * slot_bytes + blocks_.size() * sizeof(StripBlock) +
         (first_block_.size() + first_slot_.size()) * sizeof(uint32_t);
}

}  // namespace skinny
