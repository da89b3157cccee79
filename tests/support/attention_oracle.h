// SPDX-License-Identifier: MIT
// Attention in float64 on the CPU, straight from the definition: what the GPU reference is tested
// against on small shapes.
#pragma once

#include <swr/attention_problem.h>
#include <swr/problem.h>

#include <cstdint>
#include <vector>

namespace swr {

/// Q [batch, heads_q, seq_q, head_dim], K and V [batch, heads_kv, seq_kv, head_dim], contiguous.
struct OracleInputs {
  std::vector<double> q;
  std::vector<double> k;
  std::vector<double> v;
};

/// O like Q; lse [batch, heads_q, seq_q], natural logarithm.
struct OracleOutputs {
  std::vector<double> o;
  std::vector<double> lse;
};

/// O = softmax(Q K^T / sqrt(head_dim) + mask) V. Dtype and alignment of the problem do not matter.
/// As in PyTorch's safe softmax, a row without a score above minus infinity gives 0, and a score
/// that is NaN or plus infinity makes its row NaN.
OracleOutputs attention_oracle(const AttentionProblem& problem, const OracleInputs& inputs);

/// Value of a 16-bit pattern.
double decode_element(DType dtype, std::uint16_t bits);

}  // namespace swr
