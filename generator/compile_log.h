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

/// A compiler's log for people: its first line with an error, or its first where none has, with
/// what to do about it, where that is known, and the rest once, from the next line on.
std::string failure_text(std::string_view log);

}  // namespace swr
