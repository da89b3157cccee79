// SPDX-License-Identifier: MIT
// A tensor [batch, heads, seq, columns] of 16-bit elements as callers lay them out. Everything
// between and around its rows is NaN in both types, so that what is read there shows, and so does
// what is written.
#pragma once

#include <swr/attention_params.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace emulation {

enum class MemoryOrder { bhsd, bshd };

struct TensorSizes {
  int batch = 1;
  int heads = 1;
  int seq = 1;
  int columns = 16;
};

class StridedTensor {
 public:
  static constexpr std::uint16_t kNaN = 0xffff;

  /// Rows begin at multiples of `alignment_bytes` and of no more.
  StridedTensor(const TensorSizes& sizes, MemoryOrder order, int alignment_bytes)
      : sizes_(sizes), first_(kMargin + (alignment_bytes == 16 ? 0 : alignment_bytes / 2)) {
    const long long row = sizes.columns + std::max(1, alignment_bytes / 2);
    const long long item = sizes.heads * sizes.seq * row;
    strides_ = order == MemoryOrder::bhsd
                   ? swr::TensorStrides{.batch = item, .head = sizes.seq * row, .seq = row}
                   : swr::TensorStrides{.batch = item, .head = row, .seq = sizes.heads * row};
    memory_.assign(static_cast<std::size_t>(first_ + sizes.batch * item + kMargin), kNaN);
  }

  std::uint16_t& at(int b, int h, int s, int c) {
    return memory_[static_cast<std::size_t>(first_ + b * strides_.batch + h * strides_.head +
                                            s * strides_.seq + c)];
  }
  std::uint16_t* address() { return memory_.data() + first_; }
  const swr::TensorStrides& strides() const { return strides_; }
  const TensorSizes& sizes() const { return sizes_; }

  /// Calls `take(element, index)` for every element in the order [batch, heads, seq, columns].
  template <typename Take>
  void for_each(const Take& take) {
    std::size_t index = 0;
    for (int b = 0; b < sizes_.batch; ++b) {
      for (int h = 0; h < sizes_.heads; ++h) {
        for (int s = 0; s < sizes_.seq; ++s) {
          for (int c = 0; c < sizes_.columns; ++c) {
            take(at(b, h, s, c), index++);
          }
        }
      }
    }
  }

  /// The rows and what lies around them.
  std::vector<std::uint16_t>& memory() { return memory_; }

  /// Elements outside of the rows that have changed.
  int disturbed() {
    std::vector<std::uint16_t> outside = memory_;
    memory_.swap(outside);
    for_each([](std::uint16_t& element, std::size_t) { element = kNaN; });
    memory_.swap(outside);
    return static_cast<int>(outside.size()) -
           static_cast<int>(std::count(outside.begin(), outside.end(), kNaN));
  }

 private:
  static constexpr int kMargin = 64;

  TensorSizes sizes_;
  int first_;
  swr::TensorStrides strides_;
  std::vector<std::uint16_t> memory_;
};

}  // namespace emulation
