// SPDX-License-Identifier: MIT
// The study of block scheduling in GEMM: how much the swizzle stride and the order over k change,
// and whether the model names the best stride before it is measured.
#pragma once

#include "experiments/studies/study.h"
#include <swr/gemm_problem.h>

#include <iosfwd>
#include <optional>
#include <span>
#include <vector>

namespace swr {

/// Source: L2 cache scaling and block scheduling in GEMM (RTX 5090). Its sizes and strides; beside
/// them projections of language models and the order over k, which it leaves open.
Study gemm_swizzle_study(const DeviceInfo& device);

/// Elements of n per column group; 0 is off.
std::span<const int> swizzle_strides();

/// One stride of a shape.
struct StrideResult {
  int stride = 0;
  VariantResult result;
  std::optional<VariantResult> predicted;  ///< By the model, where `result` was measured.
};

/// The strides of one shape that have a result, in order: the first is 0. Strides of n or more
/// elements are left out, because they give the order of stride 0.
struct StrideSweep {
  GemmProblem problem;
  std::vector<StrideResult> strides;

  const StrideResult& off() const { return strides.front(); }
  /// The shortest time; of equal ones the smallest stride.
  const StrideResult& best() const;
  /// Source C's: (max - min) / max of the rates over strides.
  double sensitivity() const;
  /// Where the prediction is shortest; nullptr unless every stride has one.
  const StrideResult* predicted_best() const;
};

/// What choosing this stride loses against the best, as a share of the best time.
double loss(const StrideSweep& sweep, const StrideResult& chosen);

/// The sweeps of an experiment whose `swept` axis is the stride; those without a result for stride
/// 0 are left out.
std::vector<StrideSweep> stride_sweeps(const Experiment& experiment, const ResultOf& result_of,
                                       const ResultOf& predictions);

/// How the strides that the model chose did.
struct StrideScore {
  int shapes = 0;
  int exact = 0;             ///< The stride that was measured best.
  int within_1_percent = 0;  ///< Losing at most that.
  double mean_loss = 0.0;
  double worst_loss = 0.0;
};
/// Empty where no sweep has predictions beside measurements.
std::optional<StrideScore> stride_score(const std::vector<StrideSweep>& sweeps);

/// Best stride, gain, sensitivity and misses by shape, and what the model would have chosen; as
/// Markdown.
void write_stride_summary(std::ostream& out, const std::vector<StrideSweep>& sweeps);

/// The sections of the study's experiments: strides first in sum, then one by one; sawtooth over k
/// beside cyclic, everything else equal.
void write_strides(std::ostream& out, const Experiment& experiment, const ResultOf& result_of,
                   const StudyContext& context);
void write_k_orders(std::ostream& out, const Experiment& experiment, const ResultOf& result_of,
                    const StudyContext& context = {});

}  // namespace swr
