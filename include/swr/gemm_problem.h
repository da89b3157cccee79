// SPDX-License-Identifier: MIT
// What is asked of GEMM: one matrix product of a given shape, type and layout.
#pragma once

#include <swr/axes.h>
#include <swr/gemm_axes.h>
#include <swr/problem.h>

#include <compare>
#include <string>
#include <string_view>

namespace swr {

/// C = alpha * A * B + beta * C for each item of a batch; C is [m, n], the sum runs over k.
struct GemmProblem {
  int m = 0;
  int n = 0;
  int k = 0;
  int batch = 1;
  DType dtype = DType::bf16;  ///< Of A and B.
  OutputType output = OutputType::bf16;
  GemmLayout layout = GemmLayout::nt;
  bool reads_c = false;  ///< beta may differ from 0.
  /// Largest power of two, at most 16, that divides every base address and stride in bytes.
  int alignment_bytes = 16;

  auto operator<=>(const GemmProblem&) const = default;

  using ErasedAs = Problem;
  static const Operation& operation();
};

const Operation& gemm_operation();

/// Throws: Error{invalid_argument} naming the first field that no kernel can serve.
void validate(const GemmProblem& problem);

/// Two per multiplication and addition.
double flop_count(const GemmProblem& problem);

/// A, B and, where it is read, C are read; C is written.
CompulsoryBytes compulsory_bytes(const GemmProblem& problem);

/// Bytes of one element of C.
int output_bytes(OutputType output);

/// Canonical one-line text, e.g. "gemm b1 m4096 n4096 k4096 bf16 nt bf16".
std::string to_string(const GemmProblem& problem);

std::string_view to_string(GemmLayout value);
std::string_view to_string(OutputType value);
/// Throw: Error{invalid_argument} listing the accepted spellings.
GemmLayout parse_gemm_layout(std::string_view text);
OutputType parse_output_type(std::string_view text);

}  // namespace swr
