// SPDX-License-Identifier: MIT
// A tuning run for programs: JSON and CSV. Every row says whether it was measured or predicted.
#pragma once

#include "tuner/tuner.h"

#include <nlohmann/json_fwd.hpp>

#include <iosfwd>

namespace swr {

nlohmann::ordered_json json_of(const AttentionProblem& problem);
nlohmann::ordered_json json_of(const DeviceInfo& device);
/// Axes by name, and the key that `swr-tune emit --variant` takes.
nlohmann::ordered_json json_of(const Variant& variant);
/// State, provenance, axes and every metric that exists for the result.
nlohmann::ordered_json json_of(const AttentionProblem& problem, const VariantResult& result);
nlohmann::ordered_json json_of(const TuneReport& report);

/// One line per result; the columns are the same for every problem.
void write_csv_header(std::ostream& out);
void write_csv_rows(std::ostream& out, const TuneReport& report);

}  // namespace swr
