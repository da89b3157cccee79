// SPDX-License-Identifier: MIT
// What is asked of attention: one forward pass of a given shape, type and mask.
#pragma once

#include <swr/axes.h>
#include <swr/problem.h>

#include <compare>
#include <string>

namespace swr {

/// One forward pass over Q [batch, heads_q, seq_q, head_dim] and
/// K, V [batch, heads_kv, seq_kv, head_dim].
struct AttentionProblem {
  int batch = 1;
  int heads_q = 1;
  int heads_kv = 1;
  int seq_q = 0;
  int seq_kv = 0;
  /// Multiple of 16, at most 256.
  int head_dim = 64;
  DType dtype = DType::fp16;
  /// Bottom-right aligned: row i sees key j when j <= i + seq_kv - seq_q.
  bool causal = false;
  /// Largest power of two, at most 16, that divides every base address and stride in bytes.
  int alignment_bytes = 16;

  auto operator<=>(const AttentionProblem&) const = default;

  using ErasedAs = Problem;
  static const Operation& operation();
};

const Operation& attention_operation();

/// Throws: Error{invalid_argument} naming the first field that no kernel can serve.
void validate(const AttentionProblem& problem);

/// Floating-point operations of the two matrix products; key positions that the mask hides are not
/// counted.
double flop_count(const AttentionProblem& problem);

/// Q, K and V are read, O is written.
CompulsoryBytes compulsory_bytes(const AttentionProblem& problem);

/// Canonical one-line text, e.g. "attention b1 h16/16 s4096/4096 d128 fp16 causal".
std::string to_string(const AttentionProblem& problem);

}  // namespace swr
