// SPDX-License-Identifier: MIT
// One call of attention backward in memory, and how far the gradients in it are from fp64. Who
// launches is not known here: the emulation does, and tests on a GPU.
#pragma once

#include "operations/attention_backward/launch_plan.h"
#include "tests/emulation/attention_memory.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <vector>

namespace emulation {

/// The largest difference of a gradient from fp64, in units of what is allowed; and elements that
/// are not what they must be at all.
struct Deviation {
  double worst = 0.0;
  int wrong = 0;
};

class BackwardMemory : public AttentionMemory {
 public:
  BackwardMemory(const AttentionCase& problem, swr::DType dtype, MemoryOrder order,
                 int alignment_bytes, unsigned seed, bool with_d_lse)
      : AttentionMemory(problem, dtype, order, alignment_bytes),
        o_(of_queries(problem.value_dim)),
        d_o_(of_queries(problem.value_dim)),
        dq_(of_queries(problem.head_dim)),
        dk_(of_keys(problem.head_dim)),
        dv_(of_keys(problem.value_dim)) {
    std::mt19937 random(seed);
    draw(random, {&q_, &k_, &v_, &d_o_});
    std::normal_distribution<float> normal;
    d_lse_.resize(with_d_lse ? rows() : 0);
    std::generate(d_lse_.begin(), d_lse_.end(), [&] { return normal(random); });
  }

  StridedTensor& d_o() { return d_o_; }

  /// Forward in fp64, and a poisoned workspace: after it params() is complete.
  swr::AttentionBackwardGeometry prepare(const swr::AttentionBackwardPlan& plan) {
    const AttentionOutputs outputs = exact();
    o_.for_each([&](std::uint16_t& element, std::size_t index) {
      element = swr::bits_of(static_cast<float>(outputs.o[index]), dtype_);
    });
    lse_.assign(outputs.lse.begin(), outputs.lse.end());
    point_parameters();
    params_.parts = plan.parts;
    const auto geometry = swr::attention_backward_geometry(plan, params_);
    words_.assign(static_cast<std::size_t>(geometry.workspace.bytes / 4) + kCanary, kPoison);
    swr::place_workspace(params_, plan, geometry, words_.data());
    return geometry;
  }
  const swr::AttentionBackwardParams& params() const { return params_; }

  /// Calls `take(array)` for every array that the parameters may point to.
  template <typename Take>
  void for_each_array(const Take& take) {
    for (StridedTensor* const one : {&q_, &k_, &v_, &o_, &d_o_, &dq_, &dk_, &dv_}) {
      take(one->memory());
    }
    take(lse_);
    take(d_lse_);
    take(words_);
  }

  /// How far the gradients are from fp64, against how far the same computation with every result
  /// rounded to the elements' type is, and against what rowsum(dO * O) of an O that forward has
  /// rounded must add: without that, a gradient that cancels to 0 would have to be 0. An element is
  /// wrong when it is not finite.
  Deviation deviation() {
    const Rounding round = [this](double value) {
      return swr::value_of(swr::bits_of(static_cast<float>(value), dtype_), dtype_);
    };
    const AttentionGradients exact = attention_gradients(problem_, inputs());
    const AttentionGradients rounded = attention_gradients(problem_, inputs(), round);
    const double of_rows = problem_.scale * error_of_row_sums();
    const int rows_of_key = problem_.seq_q * problem_.heads_q / problem_.heads_kv;
    Deviation result;
    add(result, dq_, exact.dq, rounded.dq, of_rows * largest(values(k_)));
    add(result, dk_, exact.dk, rounded.dk,
        of_rows * largest(values(q_)) * std::sqrt(static_cast<double>(rows_of_key)));
    add(result, dv_, exact.dv, rounded.dv, 0.0);
    return result;
  }

  /// Errors of dQ, dK and dV beside the sizes of their terms.
  std::array<GradientError, 3> errors() {
    GradientSizes sizes;
    const AttentionGradients exact = attention_gradients(problem_, inputs(), sizes);
    return {gradient_error(values(dq_), exact.dq, sizes.dq),
            gradient_error(values(dk_), exact.dk, sizes.dk),
            gradient_error(values(dv_), exact.dv, sizes.dv)};
  }
  /// Half a unit in the last place.
  double unit() const { return dtype_ == swr::DType::fp16 ? 0x1p-11 : 0x1p-8; }

  /// Elements that are finite where the definition says they are not, or not finite where not even
  /// a product over hidden pairs makes them so, or, finite, far from fp64.
  int wrong_of_non_finite() {
    const AttentionGradients visible = attention_gradients(problem_, inputs());
    const AttentionGradients all = attention_gradients_of_all_pairs(problem_, inputs());
    return wrong_of_non_finite(dq_, visible.dq, all.dq) +
           wrong_of_non_finite(dk_, visible.dk, all.dk) +
           wrong_of_non_finite(dv_, visible.dv, all.dv);
  }

  /// Writes outside of the gradients' rows and of the workspace.
  int disturbed() {
    const auto intact = std::count(words_.end() - kCanary, words_.end(), kPoison);
    return dq_.disturbed() + dk_.disturbed() + dv_.disturbed() + kCanary - static_cast<int>(intact);
  }

  /// The bits of all gradients.
  std::vector<std::uint16_t> bits() {
    std::vector<std::uint16_t> result;
    for (StridedTensor* const one : {&dq_, &dk_, &dv_}) {
      one->for_each([&](std::uint16_t& element, std::size_t) { result.push_back(element); });
    }
    return result;
  }
  Values dq() { return values(dq_); }

 protected:
  static constexpr unsigned kPoison = 0xffffffffU;

  StridedTensor o_;
  StridedTensor d_o_;
  StridedTensor dq_;
  StridedTensor dk_;
  StridedTensor dv_;
  std::vector<float> lse_;
  std::vector<float> d_lse_;
  std::vector<unsigned> words_;  ///< The workspace.
  swr::AttentionBackwardParams params_;

 private:
  static constexpr int kCanary = 64;

  AttentionInputs inputs() {
    return {values(q_), values(k_), values(v_), values(d_o_), {d_lse_.begin(), d_lse_.end()}};
  }

  void point_parameters() {
    params_ = AttentionMemory::params<swr::AttentionBackwardParams>();
    params_.o = o_.address();
    params_.d_o = d_o_.address();
    params_.lse = lse_.data();
    params_.d_lse = d_lse_.empty() ? nullptr : d_lse_.data();
    params_.dq = dq_.address();
    params_.dk = dk_.address();
    params_.dv = dv_.address();
    params_.o_strides = o_.strides();
    params_.d_o_strides = d_o_.strides();
    params_.dq_strides = dq_.strides();
    params_.dk_strides = dk_.strides();
    params_.dv_strides = dv_.strides();
    params_.scale = static_cast<float>(problem_.scale);
  }

  static double largest(const Values& values) {
    double result = 0.0;
    for (const double value : values) {
      result = std::max(result, std::abs(value));
    }
    return result;
  }

  /// Three standard deviations of the error that a rounded O leaves in rowsum(dO * O).
  double error_of_row_sums() {
    const Values o = values(o_);
    const Values d_o = values(d_o_);
    const auto columns = static_cast<std::size_t>(problem_.value_dim);
    double most = 0.0;
    for (std::size_t row = 0; row < o.size(); row += columns) {
      double squares = 0.0;
      for (std::size_t i = row; i < row + columns; ++i) {
        squares += o[i] * d_o[i] * o[i] * d_o[i];
      }
      most = std::max(most, squares);
    }
    return 3.0 * unit() * std::sqrt(most);
  }

  void add(Deviation& result, StridedTensor& actual, const Values& exact, const Values& rounded,
           double of_row_sums) const {
    double of_rounded = 0.0;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      of_rounded = std::max(of_rounded, std::abs(rounded[i] - exact[i]));
    }
    const double allowed = 2.0 * of_rounded + 2.0 * unit() * largest(exact) + of_row_sums + 1e-6;
    const Values found = values(actual);
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (std::isfinite(found[i])) {
        result.worst = std::max(result.worst, std::abs(found[i] - exact[i]) / allowed);
      } else {
        ++result.wrong;
      }
    }
  }

  int wrong_of_non_finite(StridedTensor& actual, const Values& visible, const Values& all) const {
    const double tolerance = dtype_ == swr::DType::fp16 ? 4e-3 : 3e-2;
    const Values found = values(actual);
    int wrong = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (!std::isfinite(visible[i])) {
        wrong += std::isfinite(found[i]) ? 1 : 0;
      } else if (!std::isfinite(found[i])) {
        wrong += std::isfinite(all[i]) ? 1 : 0;
      } else {
        const double off = std::abs(found[i] - visible[i]);
        wrong += off > tolerance * (4.0 + std::abs(visible[i])) ? 1 : 0;
      }
    }
    return wrong;
  }
};

}  // namespace emulation
