// SPDX-License-Identifier: MIT
// What is asked for, for any operation.
#pragma once

#include <swr/attention_problem.h>
#include <swr/gemm_problem.h>
#include <swr/problem_size.h>

#include <string>
#include <string_view>
#include <variant>

namespace swr {

/// What kernels compute. Append-only: the spellings are stored.
enum class Op { attention, gemm };
std::string_view to_string(Op value);
/// Throws: Error{invalid_argument} listing the operations.
Op parse_op(std::string_view text);

/// The alternatives are in the order of Op.
using Problem = std::variant<AttentionProblem, GemmProblem>;

/// True when `any` is of the other's operation and equal to it.
inline bool operator==(const Problem& any, const AttentionProblem& problem) {
  const auto* const same_op = std::get_if<AttentionProblem>(&any);
  return same_op != nullptr && *same_op == problem;
}
inline bool operator==(const Problem& any, const GemmProblem& problem) {
  const auto* const same_op = std::get_if<GemmProblem>(&any);
  return same_op != nullptr && *same_op == problem;
}

Op op_of(const Problem& problem);
DType dtype_of(const Problem& problem);

// As for the problems of one operation.
void validate(const Problem& problem);
double flop_count(const Problem& problem);
CompulsoryBytes compulsory_bytes(const Problem& problem);
std::string to_string(const Problem& problem);

}  // namespace swr
