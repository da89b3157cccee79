// SPDX-License-Identifier: MIT
#include "tuner/measure/verdict.h"

#include <swr/variant.h>

#include <cmath>
#include <limits>
#include <sstream>

namespace swr {
namespace {

constexpr double kLseTolerance = 1e-2;
/// One wrong row among thousands hardly moves the error over all of O, hence a limit per row. Ten
/// times the total leaves room for the scatter of short rows.
constexpr double kRowToleranceFactor = 10.0;

double relative_error(const reference::Comparison& comparison) {
  if (comparison.error_squared == 0.0) {
    return 0.0;
  }
  const double error = std::sqrt(comparison.error_squared / comparison.reference_squared);
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
}

/// Empty when the value is within the limit; NaN never is.
std::string excess(const char* what, double value, double limit) {
  if (value <= limit) {
    return "";
  }
  std::ostringstream text;
  text.precision(3);
  text << what << " " << value << " exceeds " << limit << "; ";
  return text.str();
}

}  // namespace

double error_tolerance(DType dtype) { return dtype == DType::fp16 ? 2e-3 : 1e-2; }

Verdict judge(const reference::Comparison& comparison, DType dtype) {
  const double tolerance = error_tolerance(dtype);
  Verdict verdict{relative_error(comparison), ""};
  std::string& failure = verdict.failure;
  failure += excess("relative L2 error", verdict.relative_error, tolerance);
  failure += excess("relative L2 error of the worst row", comparison.worst_row_error,
                    kRowToleranceFactor * tolerance);
  failure += excess("log-sum-exp error", comparison.worst_lse_error, kLseTolerance);
  if (comparison.disturbed_words != 0) {
    failure += "wrote " + std::to_string(comparison.disturbed_words) +
               " 16-bit words outside the outputs; ";
  }
  if (!failure.empty()) {
    failure.resize(failure.size() - 2);
  }
  return verdict;
}

}  // namespace swr
