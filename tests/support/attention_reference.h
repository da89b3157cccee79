// SPDX-License-Identifier: MIT
// Attention and its gradients in fp64, from the definition: softmax of all scores of a row, and the
// gradient of the softmax as P (dP - sum P dP). It knows neither tiles nor log-sum-exps nor
// rowsum(dO * O), which is what the kernels compute with.
#pragma once

#include <functional>
#include <limits>
#include <vector>

namespace emulation {

/// Sizes, mask and scale of a problem.
struct AttentionCase {
  int batch = 1;
  int heads_q = 1;
  int heads_kv = 1;
  int seq_q = 1;
  int seq_kv = 1;
  int head_dim = 16;
  int value_dim = 16;
  bool causal = false;
  double scale = 0.3;

  int kv_head(int head) const { return head / (heads_q / heads_kv); }
  /// Keys [0, result) are visible to a row.
  int visible_keys(int row) const;
};

/// Values of tensors [batch, heads, seq, columns], contiguous.
using Values = std::vector<double>;

/// Probabilities of keys with these scores, beside a sink's score, and the log-sum-exp of all. As
/// torch's safe softmax: where no score is above -infinity all are 0, and NaN and +infinity give
/// NaN.
struct SoftmaxRow {
  Values p;
  double lse = -std::numeric_limits<double>::infinity();
};
SoftmaxRow softmax_of(Values scores, double sink = -std::numeric_limits<double>::infinity());

struct AttentionInputs {
  Values q;
  Values k;
  Values v;
  Values d_o;
  Values d_lse;  ///< [batch, heads_q, seq_q]; empty for none.
};

struct AttentionOutputs {
  Values o;
  Values lse;  ///< -infinity for a row without keys, and for one without a score above it.
};

struct AttentionGradients {
  Values dq;
  Values dk;
  Values dv;
};

/// Of every row of a gradient, contiguous, the size that the errors of kernels are relative to.
/// They round to 16 bits dS (or P), the result, and O, of which they make delta = rowsum(dO * O);
/// all sums are fp32, which is exact beside that. To first order, with u half a unit in the last
/// place, and every rounding off by at most u times what it rounds and by 0.43 u in the root mean
/// square,
///   error of dQ_i = u (dQ_i + sum over j of scale dS_ij K_j + scale A_i sum over j of P_ij K_j),
///   A_i^2 = sum over columns of (dO O)^2, the error of delta_i,
/// where the sums of independent errors add as squares; of dK the same over i with Q, of dV with P
/// and dO and without delta. The last term stays where dS = P (dP - delta) cancels: with one
/// visible key the gradient is 0, with two it may be as small as it likes, and the error is not.
/// The size is the root of the squares of these terms. Its 0.43 u are one standard deviation.
struct GradientSizes {
  Values dq;
  Values dk;
  Values dv;
};

/// Units u of the sizes that an error may have: 7 standard deviations of a row, of which there are
/// millions, and 4.7 of a gradient, where most errors of rows average out.
inline constexpr double kUnitsOfRow = 3.0;
inline constexpr double kUnitsOfAll = 2.0;

/// A gradient beside the exact one.
struct GradientError {
  double all = 0.0;  ///< Relative to the sizes; infinite when an element is not finite.
  double row = 0.0;  ///< Of the worst row.
  long long worst_row = 0;

  bool is_rounding(double unit) const {
    return all <= kUnitsOfAll * unit && row <= kUnitsOfRow * unit;
  }
};
GradientError gradient_error(const Values& found, const Values& exact, const Values& sizes);

/// What stands for every product and elementwise result: rounding, or nothing.
using Rounding = std::function<double(double)>;

AttentionOutputs attention(const AttentionCase& problem, const AttentionInputs& inputs);

/// With a rounding: as a framework computes them one operation after the other, each result
/// rounded to the elements' type.
AttentionGradients attention_gradients(const AttentionCase& problem, const AttentionInputs& inputs,
                                       const Rounding& round = nullptr);

/// The exact ones, and the sizes that errors are relative to.
AttentionGradients attention_gradients(const AttentionCase& problem, const AttentionInputs& inputs,
                                       GradientSizes& sizes);

/// What a full matrix product makes of infinities and NaN: hidden pairs have P = 0 and dS = P (dP -
/// sum), and both are multiplied with every row.
AttentionGradients attention_gradients_of_all_pairs(const AttentionCase& problem,
                                                    const AttentionInputs& inputs);

}  // namespace emulation
