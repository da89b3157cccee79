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

/// C = alpha * A * B + beta * C for each item of a batch; C is [m, n], the sum runs over k. What
/// comes between (scales, bias, activation, gate) is as GemmExtras says (swr/gemm_params.h).
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
  Scaling scaling = Scaling::none;     ///< Of A and B of FP8.
  Accuracy accuracy = Accuracy::fast;  ///< Of FP8; block scales take two_level.
  bool has_bias = false;
  Activation activation = Activation::none;
  /// B has 2 n columns (rows as stored), of the gate and then of what it multiplies.
  bool gated = false;
  bool skewed = false;  ///< Of groups: one item has half of the rows, and a quarter of them none.
  Scaling output_scaling = Scaling::none;  ///< Of a C of FP8: tensor or block.
  /// Other than with none, m is what an item of the batch has on average, and the rows of an item
  /// are known on the device alone. A is not transposed, and C not read.
  GemmGroups groups = GemmGroups::none;

  auto operator<=>(const GemmProblem&) const = default;

  using ErasedAs = Problem;
  static const Operation& operation();
};

const Operation& gemm_operation();

/// Throws: Error{invalid_argument} naming the first field that no kernel can serve.
void validate(const GemmProblem& problem);

/// Columns of A B: n, and of a gated product twice as many.
int product_columns(const GemmProblem& problem);

/// Two per multiplication and addition.
double flop_count(const GemmProblem& problem);

/// A, B and, where it is read, C are read; C is written.
CompulsoryBytes compulsory_bytes(const GemmProblem& problem);

/// Canonical one-line text, e.g. "gemm b1 m4096 n4096 k4096 bf16 nt bf16".
std::string to_string(const GemmProblem& problem);

std::string_view to_string(GemmLayout value);
std::string_view to_string(OutputType value);
std::string_view to_string(Scaling value);
std::string_view to_string(Accuracy value);
std::string_view to_string(Activation value);
std::string_view to_string(GemmGroups value);
/// Throw: Error{invalid_argument} listing the accepted spellings.
GemmLayout parse_gemm_layout(std::string_view text);
OutputType parse_output_type(std::string_view text);

}  // namespace swr
