// SPDX-License-Identifier: MIT
// Attention and its gradients in fp64, from the definition: softmax of all scores of a row, and the
// gradient of the softmax as P (dP - sum P dP). It knows neither tiles nor log-sum-exps nor
// rowsum(dO * O), which is what the kernels compute with.
#pragma once

#include <functional>
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

/// What stands for every product and elementwise result: rounding, or nothing.
using Rounding = std::function<double(double)>;

AttentionOutputs attention(const AttentionCase& problem, const AttentionInputs& inputs);

/// With a rounding: as a framework computes them one operation after the other, each result
/// rounded to the elements' type.
AttentionGradients attention_gradients(const AttentionCase& problem, const AttentionInputs& inputs,
                                       const Rounding& round = nullptr);

/// What a full matrix product makes of infinities and NaN: hidden pairs have P = 0 and dS = P (dP -
/// sum), and both are multiplied with every row.
AttentionGradients attention_gradients_of_all_pairs(const AttentionCase& problem,
                                                    const AttentionInputs& inputs);

}  // namespace emulation
