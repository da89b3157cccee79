// SPDX-License-Identifier: MIT
// A dense problem in memory, as callers lay it out: what the harnesses of forward, of backward and
// of the reference have in common. Who launches is not known here.
#pragma once

#include "tests/emulation/attention_backward_reference.h"
#include "tests/emulation/strided_tensor.h"
#include "tests/support/float16.h"
#include <swr/axes.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <vector>

namespace emulation {

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
