// SPDX-License-Identifier: MIT
// Reads what ptxas -v reports about a kernel out of a compilation log.
#pragma once

#include <swr/kernel.h>

#include <optional>
#include <string>
#include <string_view>

namespace swr {

/// The resources of the entry function `entry`; empty when the log does not report its registers.
/// Other functions in the log are ignored.
std::optional<KernelResources> parse_resources(std::string_view log, std::string_view entry);

/// The first line that reports an error, or the first line when none does.
std::string first_error_line(std::string_view log);

/// A compiler's log for people: the first error with what to do about it, where that is known, and
/// the rest once, from the next line on.
std::string failure_text(const std::string& log);

}  // namespace swr
