// SPDX-License-Identifier: MIT
// A dense problem in memory, as callers lay it out: what the harnesses of forward, of backward and
// of the reference have in common. Who launches is not known here.
#pragma once

#include "tests/support/attention_reference.h"
#include "tests/support/float16.h"
#include <swr/attention_params.h>
#include <swr/axes.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <vector>

namespace emulation {

enum class MemoryOrder { bhsd, bshd };

struct TensorSizes {
  int batch = 1;
  int heads = 1;
  int seq = 1;
  int columns = 16;
};

/// A tensor [batch, heads, seq, columns] of 16-bit elements as callers lay them out. Everything
/// between and around its rows is NaN in both types, so that what is read there shows, and so does
/// what is written.
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

class AttentionMemory {
 public:
  AttentionMemory(const AttentionCase& problem, swr::DType dtype, MemoryOrder order,
                  int alignment_bytes)
      : problem_(problem),
        dtype_(dtype),
        order_(order),
        alignment_bytes_(alignment_bytes),
        q_(of_queries(problem.head_dim)),
        k_(of_keys(problem.head_dim)),
        v_(of_keys(problem.value_dim)) {}

  StridedTensor& q() { return q_; }
  StridedTensor& k() { return k_; }
  StridedTensor& v() { return v_; }

 protected:
  static constexpr float kUnwritten = 12345.0F;

  StridedTensor of_queries(int columns) const {
    return {{problem_.batch, problem_.heads_q, problem_.seq_q, columns}, order_, alignment_bytes_};
  }
  StridedTensor of_keys(int columns) const {
    return {
        {problem_.batch, problem_.heads_kv, problem_.seq_kv, columns}, order_, alignment_bytes_};
  }
  std::size_t rows() const {
    return static_cast<std::size_t>(problem_.batch * problem_.heads_q * problem_.seq_q);
  }

  /// Normal values.
  void draw(std::mt19937& random, std::initializer_list<StridedTensor*> tensors) const {
    for (StridedTensor* const one : tensors) {
      std::normal_distribution<float> normal;
      one->for_each([&](std::uint16_t& element, std::size_t) {
        element = swr::bits_of(normal(random), dtype_);
      });
    }
  }
  Values values(StridedTensor& tensor) const {
    Values result;
    tensor.for_each([&](std::uint16_t& element, std::size_t) {
      result.push_back(swr::value_of(element, dtype_));
    });
    return result;
  }
  AttentionOutputs exact() {
    return attention(problem_,
                     {.q = values(q_), .k = values(k_), .v = values(v_), .d_o = {}, .d_lse = {}});
  }

  /// What all parameter blocks of dense attention have in common.
  template <typename Params>
  Params params() {
    Params p;
    p.q = q_.address();
    p.k = k_.address();
    p.v = v_.address();
    p.q_strides = q_.strides();
    p.k_strides = k_.strides();
    p.v_strides = v_.strides();
    p.batch = problem_.batch;
    p.heads_q = problem_.heads_q;
    p.heads_kv = problem_.heads_kv;
    p.seq_q = problem_.seq_q;
    p.seq_kv = problem_.seq_kv;
    p.scale_log2 = static_cast<float>(problem_.scale / std::log(2.0));
    return p;
  }

  /// Whether a result is NaN, infinite or 0 where it must be, and else near.
  static bool is_near(double actual, double expected, double tolerance) {
    if (std::isnan(expected) || std::isinf(expected) || expected == 0.0) {
      return std::isnan(expected) ? std::isnan(actual) : actual == expected;
    }
    return std::abs(actual - expected) <= tolerance * (1.0 + std::abs(expected));
  }

  AttentionCase problem_;
  swr::DType dtype_;
  MemoryOrder order_;
  int alignment_bytes_;
  StridedTensor q_;
  StridedTensor k_;
  StridedTensor v_;
};

}  // namespace emulation
