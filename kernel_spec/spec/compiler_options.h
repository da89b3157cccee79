// SPDX-License-Identifier: MIT
// Options of the compiler in specs: those that are passed on, those that change nothing here, and
// what is refused.
#pragma once

#include <swr/kernel_spec.h>

#include <string>

namespace swr::kernel_spec {

/// Joins options that are written in two parts, takes -I folders for include folders, and takes out
/// what changes nothing for swr, such as -O3 or -arch=sm_90, with a note.
void read_compiler_options(KernelSpec& spec);

/// Throws: Error{invalid_argument} for an option that names a file or another tool's options, for
/// any value of the parameter that stands in it.
void require_option(const std::string& option, const KernelSpec& spec);

/// The option with the value of a parameter behind its = sign. Definitions stay: the preprocessor
/// replaces there.
std::string with_option_value(const std::string& option, const std::string& parameter,
                              const std::string& value);

}  // namespace swr::kernel_spec
