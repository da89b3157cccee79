// SPDX-License-Identifier: MIT
#include "operations/verdict.h"

#include "core/number_text.h"
#include <swr/variant.h>

#include <cmath>
#include <limits>
#include <utility>

namespace swr {
namespace {

constexpr double kLseTolerance = 1e-2;
/// One wrong row among thousands hardly moves the error over all of O, hence a limit per row. Ten
/// times the total leaves room for the scatter of short rows.
constexpr double kRowToleranceFactor = 10.0;

double relative_error(double error_squared, double reference_squared) {
  if (error_squared == 0.0) {
    return 0.0;
  }
  const double error = std::sqrt(error_squared / reference_squared);
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
}

/// Empty when the value is within the limit; NaN never is.
std::string excess(const char* what, double value, double limit) {
  if (value <= limit) {
    return "";
  }
  return std::string(what) + " " + general_text(value, 3) + " exceeds " + general_text(limit, 3) +
         "; ";
}

std::string disturbance(unsigned long long words) {
  return words == 0 ? "" : "wrote " + std::to_string(words) + " 16-bit words outside the outputs; ";
}

/// Findings end in "; ".
Verdict verdict_of(double error, std::string findings) {
  if (!findings.empty()) {
    findings.resize(findings.size() - 2);
  }
  return {error, std::move(findings)};
}

Verdict judge_with(const reference::Comparison& comparison, double tolerance) {
  const double error = relative_error(comparison.error_squared, comparison.reference_squared);
  return verdict_of(error,
                    excess("relative L2 error", error, tolerance) +
                        excess("relative L2 error of the worst row", comparison.worst_row_error,
                               kRowToleranceFactor * tolerance) +
                        excess("log-sum-exp error", comparison.worst_lse_error, kLseTolerance) +
                        disturbance(comparison.disturbed_words));
}

}  // namespace

double error_tolerance(DType dtype) { return dtype == DType::fp16 ? 2e-3 : 1e-2; }

double error_tolerance(OutputType output) {
  switch (output) {
    case OutputType::fp16:
      return 4e-4;
    case OutputType::bf16:
      return 3e-3;
    case OutputType::fp32:
      return 1e-5;
    case OutputType::fp8:
      return 4e-2;
  }
  return 0.0;
}

Verdict judge(const reference::Comparison& comparison, DType dtype) {
  return judge_with(comparison, error_tolerance(dtype));
}

Verdict judge_gradient(const reference::Comparison& comparison, DType dtype) {
  return judge_with(comparison, dtype == DType::fp16 ? 1.6e-3 : 1.2e-2);
}

Verdict judge(const reference::GemmComparison& comparison, double tolerance,
              unsigned long long disturbed_words) {
  const double error = relative_error(comparison.error_squared, comparison.expected_squared);
  return verdict_of(error,
                    excess("relative L2 error", error, tolerance) + disturbance(disturbed_words));
}

Verdict judge_elements(const reference::GemmComparison& comparison,
                       unsigned long long disturbed_words) {
  return verdict_of(relative_error(comparison.error_squared, comparison.expected_squared),
                    excess("elements further from the exact result than rounding explains:",
                           comparison.different_elements, 0.0) +
                        disturbance(disturbed_words));
}

Verdict judge_exact(const reference::GemmComparison& comparison,
                    unsigned long long disturbed_words) {
  const double error = relative_error(comparison.error_squared, comparison.expected_squared);
  const bool is_exact = comparison.different_elements == 0.0;  // False for NaN as well.
  return verdict_of(error, (is_exact ? "" : "elements differ on data whose products are exact; ") +
                               disturbance(disturbed_words));
}

}  // namespace swr
