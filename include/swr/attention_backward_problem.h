// SPDX-License-Identifier: MIT
// What is asked of attention backward: from the gradient of O to those of Q, K and V.
#pragma once

#include <swr/axes.h>
#include <swr/problem.h>

#include <compare>
#include <string>

namespace swr {

const Operation& attention_backward_operation();

/// The backward pass of O = softmax(Q K^T / sqrt(head_dim) + mask) V over
/// Q [batch, heads_q, seq_q, head_dim], K [batch, heads_kv, seq_kv, head_dim] and V, dO with
/// head_dim_v columns. Heads and mask are as AttentionProblem has them.
struct AttentionBackwardProblem {
  int batch = 1;
  int heads_q = 1;
  int heads_kv = 1;
  int seq_q = 0;
  int seq_kv = 0;
  /// Of Q and K. A multiple of 16, of 32 where it or head_dim_v is more than 128; at most 256.
  int head_dim = 64;
  int head_dim_v = 64;  ///< Of V and O. The same.
  DType dtype = DType::fp16;
  bool causal = false;
  /// The same inputs give the same bits, whatever else runs.
  bool deterministic = false;
  /// Largest power of two, at most 16, that divides every base address and stride in bytes.
  int alignment_bytes = 16;

  auto operator<=>(const AttentionBackwardProblem&) const = default;

  using ErasedAs = Problem;
  static const Operation& operation() { return attention_backward_operation(); }
};

/// Throws: Error{invalid_argument} naming the first field that no kernel can serve.
void validate(const AttentionBackwardProblem& problem);

/// Floating-point operations of the five matrix products of BackwardForm::fused, whichever form
/// computes them; what the mask hides is not counted.
double flop_count(const AttentionBackwardProblem& problem);

/// Q, K, V, O, dO and the log-sum-exps are read, dQ, dK and dV are written.
CompulsoryBytes compulsory_bytes(const AttentionBackwardProblem& problem);

/// Canonical one-line text, e.g. "attention_backward b1 h16/16 s4096/4096 d128 bf16 causal".
std::string to_string(const AttentionBackwardProblem& problem);

}  // namespace swr
