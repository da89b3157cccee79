// SPDX-License-Identifier: MIT
#include "core/field_builders.h"
#include "core/reject.h"
#include "operations/gemm/parts.h"
#include <swr/gemm_problem.h>

#include <array>
#include <utility>

namespace swr {
namespace {

using namespace std::string_view_literals;

constexpr std::array kLayouts{"nt"sv, "nn"sv, "tn"sv};
constexpr std::array kOutputs{"fp16"sv, "bf16"sv, "fp32"sv};

}  // namespace

void validate(const GemmProblem& problem) {
  constexpr int kMaxLength = 1 << 24;
  for (const auto& [value, name] :
       {std::pair{problem.m, "m"}, {problem.n, "n"}, {problem.k, "k"}, {problem.batch, "batch"}}) {
    if (value < 1 || value > kMaxLength) {
      reject(std::string(name) + " must be 1 to 16777216, not " + std::to_string(value));
    }
  }
  require_alignment(problem.alignment_bytes);
  if (problem.alignment_bytes < output_bytes(problem.output)) {
    reject("alignment must be at least the 4 bytes of an fp32 element of C");
  }
}

double flop_count(const GemmProblem& problem) {
  return 2.0 * problem.batch * problem.m * problem.n * problem.k;
}

CompulsoryBytes compulsory_bytes(const GemmProblem& problem) {
  const auto matrix = [&](int rows, int columns, int bytes) {
    return static_cast<long long>(problem.batch) * rows * columns * bytes;
  };
  const int bytes = element_bytes(problem.dtype);
  const long long c = matrix(problem.m, problem.n, output_bytes(problem.output));
  return {.read = matrix(problem.m, problem.k, bytes) + matrix(problem.k, problem.n, bytes) +
                  (problem.reads_c ? c : 0),
          .write = c};
}

std::string_view to_string(GemmLayout value) { return enum_text(kLayouts, value); }
std::string_view to_string(OutputType value) { return enum_text(kOutputs, value); }
GemmLayout parse_gemm_layout(std::string_view text) {
  return parse_enum<GemmLayout>(kLayouts, text, "layout");
}
OutputType parse_output_type(std::string_view text) {
  return parse_enum<OutputType>(kOutputs, text, "output");
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

std::span<const ProblemField> gemm_fields() {
  using P = GemmProblem;
  static const std::array fields{
      size_field(&P::m, "m", "Rows of C", {.option = "m", .is_required = true, .takes_list = true}),
      size_field(&P::n, "n", "Columns of C", {.option = "n", .is_required = true}),
      size_field(&P::k, "k", "Inner dimension", {.option = "k", .is_required = true}),
      size_field(&P::batch, "batch", "Batch size", {.option = "batch", .usual = 1}),
      choice_field(&P::dtype, kDTypes, "dtype", "Type of A and B", {.option = "dtype"}),
      choice_field(&P::output, kOutputs, "output", "Type of C",
                   {.option = "output", .follows = "dtype"}),
      choice_field(&P::layout, kLayouts, "layout",
                   "nt: A [m, k] and B [n, k]; nn: B [k, n]; tn: A [k, m] and B [k, n]",
                   {.option = "layout"}),
      flag_field(&P::reads_c, "reads_c", "C is an input too (beta is not 0)",
                 {.option = "reads-c"}),
      alignment_field(&P::alignment_bytes),
  };
  return fields;
}

std::string file_name_of(const GemmProblem& problem) {
  return "gemm_b" + std::to_string(problem.batch) + "_m" + std::to_string(problem.m) + "_n" +
         std::to_string(problem.n) + "_k" + std::to_string(problem.k) + "_" +
         std::string(to_string(problem.dtype)) + "_" + std::string(to_string(problem.layout)) +
         "_" + std::string(to_string(problem.output)) + (problem.reads_c ? "_beta" : "") +
         alignment_suffix(problem.alignment_bytes);
}

/// Splits need a longer k than this.
void enlarge_sizes(GemmProblem& problem) {
  constexpr int kLarge = 1 << 20;
  problem.m = kLarge;
  problem.n = kLarge;
  problem.k = kLarge;
}

}  // namespace swr
