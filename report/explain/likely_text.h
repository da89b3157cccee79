// SPDX-License-Identifier: MIT
// How far a predicted number may be off, as it is printed.
#pragma once

#include <string>

namespace swr {

/// As uncertain_text(): "80 ± 6". Where measured times are known to lie to one side of predicted
/// ones (prediction_bias()), what is likely stands in place of both sides: "80, likely 69".
std::string uncertain_rate_text(double rate, double relative_error, double time_bias);

/// ", uncertain by 13 %, likely 92.66 ms" of a predicted time; empty where no error is known.
std::string uncertain_time_text(double time_us, double relative_error, double time_bias);

/// "times are uncertain by 13 %; 2 others lie within that of the best".
std::string predicted_ties_text(double relative_error, long long others);

}  // namespace swr
