// SPDX-License-Identifier: MIT
// What compiling needs beside NVRTC: its log read, and work that can open no file.
#pragma once

#include <swr/kernel.h>

#include <functional>
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

// Work that can open no file, whatever it is made to try.

/// Does the work on a thread of its own, for which the system refuses every call that names a file,
/// a process or a connection, as if none existed (seccomp). False, and nothing is done, where the
/// system cannot do that. Other threads are as before. Throws: what `work` throws.
bool run_confined(const std::function<void()>& work);

}  // namespace swr
