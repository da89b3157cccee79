// SPDX-License-Identifier: MIT
#include "report/explain/likely_text.h"

#include "core/number_text.h"
#include "model/prediction_error.h"

namespace swr {

std::string uncertain_rate_text(double rate, double relative_error, double time_bias) {
  const std::string both = uncertain_text(rate, relative_error);
  const auto sides = both.find(" ± ");
  if (time_bias == 0.0 || sides == both.npos) {
    return both;
  }
  const std::string likely = uncertain_text(rate * (1.0 + time_bias), relative_error);
  return both.substr(0, sides) + ", likely " + likely.substr(0, likely.find(" ± "));
}

std::string uncertain_time_text(double time_us, double relative_error, double time_bias) {
  if (!(relative_error > 0)) {
    return "";
  }
  return ", uncertain by " + percent_text(relative_error) +
         (time_bias == 0.0 ? "" : ", likely " + time_text(likely_us(time_us, time_bias)));
}

std::string predicted_ties_text(double relative_error, long long others) {
  const std::string count = others == 0 ? "no" : std::to_string(others);
  return "times are uncertain by " + percent_text(relative_error) + "; " + count +
         (others > 1 ? " others lie" : " other lies") + " within that of the best";
}

}  // namespace swr
