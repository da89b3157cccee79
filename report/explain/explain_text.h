// SPDX-License-Identifier: MIT
// Sections that explanations of every operation have.
#pragma once

#include "model/profile/gpu_profile.h"
#include <swr/problem.h>
#include <swr/result.h>

#include <iosfwd>
#include <string>

namespace swr {

/// One line: name, value, remark.
void line(std::ostream& out, std::string name, const std::string& value,
          const std::string& remark = "");

/// Sectors as bytes.
std::string with_bytes(long long sectors);

/// Time and counters beside the predicted time; nothing for a prediction.
void print_measured(std::ostream& out, const Problem& problem, const VariantResult& result,
                    double predicted_us);
/// Bank conflicts and coalescing by hardware counter, or why they are unknown.
void print_accesses(std::ostream& out, const Problem& problem, const VariantResult& result);
void print_roofline(std::ostream& out, const Problem& problem, const VariantResult& result,
                    const GpuProfile& profile);
/// What limits it, and what to try next.
void print_words(std::ostream& out, const Problem& problem, const VariantResult& result,
                 const GpuProfile& profile);

}  // namespace swr
