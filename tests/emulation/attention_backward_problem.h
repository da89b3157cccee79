// SPDX-License-Identifier: MIT
// The portable attention backward kernels, templates and all, run on the CPU for one problem and
// compared with fp64.
#pragma once

#include "attention_backward/portable/around_key_pass.cuh"
#include "attention_backward/portable/key_pass.cuh"
#include "attention_backward/portable/query_pass.cuh"
#include "operations/attention_backward/launch_plan.h"
#include "tests/emulation/attention_backward_reference.h"
#include "tests/emulation/resident_grid.h"
#include "tests/emulation/simt.h"
#include "tests/emulation/strided_tensor.h"

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace emulation {

/// What a call can choose when the kernels are compiled.
struct BackwardChoice {
  MemoryOrder memory = MemoryOrder::bhsd;
  int section_heads = 1;
  int workers = 3;
  int parts = 1;
  bool last_kv_first = false;
  int bands = 1;  ///< Not of tiles that rotate and take turns.
  bool with_d_lse = false;
  Fault fault = Fault::none;
  CopyTime copies = CopyTime::early;
  Pace pace = Pace::together;
  /// CTAs of the pass over K and V tiles that run side by side; 0: one after the other.
  unsigned room = 0;
  unsigned seed = 1;
};

/// The largest difference of a gradient from fp64, in units of what is allowed; and elements that
/// are not what they must be at all.
struct Deviation {
  double worst = 0.0;
  int wrong = 0;
};

/// Kernels of one variant. Q is ignored where the pass over K and V tiles sums dQ.
template <swr::KeyPassConfig K, swr::QueryPassConfig Q>
class BackwardProblem {
 public:
  BackwardProblem(const AttentionCase& problem, const BackwardChoice& choice, unsigned seed = 11)
      : problem_(problem),
        choice_(choice),
        q_(tensor(problem.heads_q, problem.seq_q, problem.head_dim)),
        k_(tensor(problem.heads_kv, problem.seq_kv, problem.head_dim)),
        v_(tensor(problem.heads_kv, problem.seq_kv, problem.value_dim)),
        o_(tensor(problem.heads_q, problem.seq_q, problem.value_dim)),
        d_o_(tensor(problem.heads_q, problem.seq_q, problem.value_dim)),
        dq_(tensor(problem.heads_q, problem.seq_q, problem.head_dim)),
        dk_(tensor(problem.heads_kv, problem.seq_kv, problem.head_dim)),
        dv_(tensor(problem.heads_kv, problem.seq_kv, problem.value_dim)) {
    std::mt19937 random(seed);
    for (StridedTensor* const one : {&q_, &k_, &v_, &d_o_}) {
      std::normal_distribution<float> normal;
      one->for_each([&](std::uint16_t& element, std::size_t) {
        element = static_cast<std::uint16_t>(swr::ptx::encode<K.dtype>(normal(random)));
      });
    }
    if (choice.with_d_lse) {
      std::normal_distribution<float> normal;
      d_lse_.resize(static_cast<std::size_t>(problem.batch * problem.heads_q * problem.seq_q));
      for (float& value : d_lse_) {
        value = normal(random);
      }
    }
  }

  StridedTensor& q() { return q_; }
  StridedTensor& k() { return k_; }
  StridedTensor& v() { return v_; }
  StridedTensor& d_o() { return d_o_; }

  /// Forward in fp64, then the kernels. False when CTAs wait for each other for ever.
  bool run() {
    run_forward();
    const swr::AttentionBackwardPlan plan = make_plan();
    swr::AttentionBackwardParams params = make_params();
    const swr::AttentionBackwardGeometry geometry =
        swr::attention_backward_geometry(plan, with_parts(params, plan));
    std::vector<unsigned> words(static_cast<std::size_t>(geometry.workspace.bytes / 4) + kCanary,
                                kPoison);
    swr::place_workspace(params, plan, geometry, words.data());
    launch_first(geometry, params);
    const bool ended = launch_key_pass(geometry, params, words);
    if (ended && geometry.finish.grid_x > 0) {
      traffic_ += emulation::run(launch(geometry.finish, hidden(words)),
                                 [&] { swr::portable::finish<K>(params); });
    }
    canaries_hurt_ =
        kCanary - static_cast<int>(std::count(words.end() - kCanary, words.end(), kPoison));
    return ended;
  }

  /// How far the gradients are from fp64, against how far the same computation with every result
  /// rounded to the elements' type is, and against what rowsum(dO * O) of an O that forward has
  /// rounded must add: without that, a gradient that cancels to 0 would have to be 0. An element is
  /// wrong when it is not finite.
  Deviation deviation() {
    const AttentionGradients exact = attention_gradients(problem_, inputs());
    const AttentionGradients rounded = attention_gradients(problem_, inputs(), &round);
    const double of_rows = problem_.scale * error_of_row_sums();
    const int rows_of_key = problem_.seq_q * problem_.heads_q / problem_.heads_kv;
    Deviation result;
    add(result, dq_, exact.dq, rounded.dq, of_rows * largest(values(k_)));
    add(result, dk_, exact.dk, rounded.dk,
        of_rows * largest(values(q_)) * std::sqrt(static_cast<double>(rows_of_key)));
    add(result, dv_, exact.dv, rounded.dv, 0.0);
    return result;
  }

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
  int disturbed() { return dq_.disturbed() + dk_.disturbed() + dv_.disturbed() + canaries_hurt_; }

  /// The bits of all gradients.
  std::vector<std::uint16_t> bits() {
    std::vector<std::uint16_t> result;
    for (StridedTensor* const one : {&dq_, &dk_, &dv_}) {
      one->for_each([&](std::uint16_t& element, std::size_t) { result.push_back(element); });
    }
    return result;
  }
  Values dq() { return values(dq_); }

  /// Of all kernels, unless CTAs ran side by side.
  const SharedTraffic& traffic() const { return traffic_; }

 private:
  static constexpr unsigned kPoison = 0xffffffffU;
  static constexpr int kCanary = 64;

  static double round(double value) {
    return static_cast<double>(
        swr::ptx::decode<K.dtype>(swr::ptx::encode<K.dtype>(static_cast<float>(value))));
  }

  StridedTensor tensor(int heads, int seq, int columns) const {
    return {{problem_.batch, heads, seq, columns}, choice_.memory, K.alignment_bytes};
  }

  static Values values(StridedTensor& tensor) {
    Values result;
    tensor.for_each([&](std::uint16_t& element, std::size_t) {
      result.push_back(static_cast<double>(swr::ptx::decode<K.dtype>(element)));
    });
    return result;
  }

  AttentionInputs inputs() {
    return {values(q_), values(k_), values(v_), values(d_o_), {d_lse_.begin(), d_lse_.end()}};
  }

  void run_forward() {
    const AttentionOutputs outputs = attention(problem_, inputs());
    o_.for_each([&](std::uint16_t& element, std::size_t index) {
      element = static_cast<std::uint16_t>(
          swr::ptx::encode<K.dtype>(static_cast<float>(outputs.o[index])));
    });
    lse_.assign(outputs.lse.begin(), outputs.lse.end());
  }

  swr::AttentionBackwardPlan make_plan() const {
    swr::AttentionBackwardPlan plan = swr::plan_of_configs(K, Q);
    plan.workers = plan.query_workers = choice_.workers;
    plan.swizzle = swr::AttentionSwizzle::head_sections;
    plan.section_heads = choice_.section_heads;
    plan.parts = choice_.parts;
    plan.last_kv_first = choice_.last_kv_first;
    plan.bands = choice_.bands;
    return plan;
  }

  static swr::AttentionBackwardParams with_parts(swr::AttentionBackwardParams params,
                                                 const swr::AttentionBackwardPlan& plan) {
    params.parts = plan.parts;
    return params;
  }

  swr::AttentionBackwardParams make_params() {
    swr::AttentionBackwardParams params;
    params.q = q_.address();
    params.k = k_.address();
    params.v = v_.address();
    params.o = o_.address();
    params.d_o = d_o_.address();
    params.lse = lse_.data();
    params.d_lse = d_lse_.empty() ? nullptr : d_lse_.data();
    params.dq = dq_.address();
    params.dk = dk_.address();
    params.dv = dv_.address();
    params.q_strides = q_.strides();
    params.k_strides = k_.strides();
    params.v_strides = v_.strides();
    params.o_strides = o_.strides();
    params.d_o_strides = d_o_.strides();
    params.dq_strides = dq_.strides();
    params.dk_strides = dk_.strides();
    params.dv_strides = dv_.strides();
    params.batch = problem_.batch;
    params.heads_q = problem_.heads_q;
    params.heads_kv = problem_.heads_kv;
    params.seq_q = problem_.seq_q;
    params.seq_kv = problem_.seq_kv;
    params.scale = static_cast<float>(problem_.scale);
    params.scale_log2 = static_cast<float>(problem_.scale / std::log(2.0));
    return params;
  }

  Launch launch(const swr::KernelLaunch& kernel, std::function<void()> end_launch_before) const {
    return {.grid = static_cast<unsigned>(kernel.grid_x),
            .threads = kernel.block_x,
            .smem_bytes = kernel.dynamic_smem_bytes,
            .copies = choice_.copies,
            .pace = choice_.pace,
            .fault = choice_.fault,
            .end_launch_before = std::move(end_launch_before)};
  }

  /// The launch before writes the inputs when it ends.
  std::function<void()> hidden_inputs() {
    const std::vector<float> lse = lse_;
    std::fill(lse_.begin(), lse_.end(), NAN);
    return
        [this, lse, q = q_.take(), k = k_.take(), v = v_.take(), o = o_.take(), d_o = d_o_.take()] {
          q_.put_back(q);
          k_.put_back(k);
          v_.put_back(v);
          o_.put_back(o);
          d_o_.put_back(d_o);
          std::copy(lse.begin(), lse.end(), lse_.begin());
        };
  }
  /// The launch before writes the workspace when it ends.
  static std::function<void()> hidden(std::vector<unsigned>& words) {
    const std::vector<unsigned> kept = words;
    std::fill(words.begin(), words.end(), kPoison);
    return [&words, kept] { std::copy(kept.begin(), kept.end(), words.begin()); };
  }

  void launch_first(const swr::AttentionBackwardGeometry& geometry,
                    const swr::AttentionBackwardParams& params) {
    const std::function<void()> inputs = hidden_inputs();
    if constexpr (K.sums_dq()) {
      traffic_ += emulation::run(launch(geometry.prepare, inputs),
                                 [&] { swr::portable::prepare<K>(params); });
    } else {
      traffic_ += emulation::run(launch(geometry.query_pass, inputs),
                                 [&] { swr::portable::run_query_pass<Q>(params, 0); });
    }
  }

  bool launch_key_pass(const swr::AttentionBackwardGeometry& geometry,
                       const swr::AttentionBackwardParams& params, std::vector<unsigned>& words) {
    const std::function<void()> end = hidden(words);
    const auto kernel = [&] { swr::portable::run_key_pass<K>(params, 0); };
    if (choice_.room == 0) {
      traffic_ += emulation::run(launch(geometry.key_pass, end), kernel);
      return true;
    }
    return ResidentGrid(launch(geometry.key_pass, end), choice_.room, choice_.seed, kernel).run();
  }

  /// Of half a unit in the last place.
  static constexpr double kRoundOff = K.dtype == swr::DType::fp16 ? 0x1p-11 : 0x1p-8;

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
    return 3.0 * kRoundOff * std::sqrt(most);
  }

  static void add(Deviation& result, StridedTensor& actual, const Values& exact,
                  const Values& rounded, double of_row_sums) {
    double of_rounded = 0.0;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      of_rounded = std::max(of_rounded, std::abs(rounded[i] - exact[i]));
    }
    const double allowed = 2.0 * of_rounded + 2.0 * kRoundOff * largest(exact) + of_row_sums + 1e-6;
    actual.for_each([&](std::uint16_t& element, std::size_t index) {
      const auto value = static_cast<double>(swr::ptx::decode<K.dtype>(element));
      if (std::isfinite(value)) {
        result.worst = std::max(result.worst, std::abs(value - exact[index]) / allowed);
      } else {
        ++result.wrong;
      }
    });
  }

  static int wrong_of_non_finite(StridedTensor& actual, const Values& visible, const Values& all) {
    const double tolerance = K.dtype == swr::DType::fp16 ? 4e-3 : 3e-2;
    int wrong = 0;
    actual.for_each([&](std::uint16_t& element, std::size_t index) {
      const auto value = static_cast<double>(swr::ptx::decode<K.dtype>(element));
      if (!std::isfinite(visible[index])) {
        wrong += std::isfinite(value) ? 1 : 0;
      } else if (!std::isfinite(value)) {
        wrong += std::isfinite(all[index]) ? 1 : 0;
      } else {
        const double off = std::abs(value - visible[index]);
        wrong += off > tolerance * (4.0 + std::abs(visible[index])) ? 1 : 0;
      }
    });
    return wrong;
  }

  AttentionCase problem_;
  BackwardChoice choice_;
  StridedTensor q_;
  StridedTensor k_;
  StridedTensor v_;
  StridedTensor o_;
  StridedTensor d_o_;
  StridedTensor dq_;
  StridedTensor dk_;
  StridedTensor dv_;
  std::vector<float> lse_;
  std::vector<float> d_lse_;
  int canaries_hurt_ = 0;
  SharedTraffic traffic_;
};

}  // namespace emulation
