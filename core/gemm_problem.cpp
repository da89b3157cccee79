// SPDX-License-Identifier: MIT
#include <swr/error.h>
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>

#include <utility>

namespace swr {
namespace {

[[noreturn]] void reject(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, message);
}

}  // namespace

void validate(const GemmProblem& problem) {
  constexpr int kMaxLength = 1 << 24;
  for (const auto& [value, name] :
       {std::pair{problem.m, "m"}, {problem.n, "n"}, {problem.k, "k"}, {problem.batch, "batch"}}) {
    if (value < 1 || value > kMaxLength) {
      reject(std::string(name) + " must be 1 to 16777216, not " + std::to_string(value));
    }
  }
  const int alignment = problem.alignment_bytes;
  if (alignment != 2 && alignment != 4 && alignment != 8 && alignment != 16) {
    reject("alignment must be 2, 4, 8 or 16 bytes, not " + std::to_string(alignment));
  }
  if (alignment < output_bytes(problem.output)) {
    reject("alignment must be at least the 4 bytes of an fp32 element of C");
  }
}

double flop_count(const GemmProblem& problem) {
  return 2.0 * problem.batch * problem.m * problem.n * problem.k;
}

int output_bytes(OutputType output) { return output == OutputType::fp32 ? 4 : 2; }

std::string to_string(const GemmProblem& problem) {
  std::string text = "gemm b" + std::to_string(problem.batch) + " m" + std::to_string(problem.m) +
                     " n" + std::to_string(problem.n) + " k" + std::to_string(problem.k) + " " +
                     std::string(to_string(problem.dtype)) + " " +
                     std::string(to_string(problem.layout)) + " " +
                     std::string(to_string(problem.output));
  if (problem.reads_c) {
    text += " beta";
  }
  if (problem.alignment_bytes != 16) {
    text += " align" + std::to_string(problem.alignment_bytes);
  }
  return text;
}

}  // namespace swr
