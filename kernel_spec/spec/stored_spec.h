// SPDX-License-Identifier: MIT
// A spec with the files that its kernels are compiled from, as one text: what a database keeps of a
// kernel, so that its results say something without the spec's folder.
#pragma once

#include <swr/kernel_spec.h>

#include <map>
#include <string>
#include <string_view>

namespace swr::kernel_spec {

/// What a spec names beside its source.
struct SpecFiles {
  /// Texts by path below the spec's folder. Earlier versions of swr had the names in directives.
  std::map<std::string, std::string> headers;
  std::string reference_source;  ///< Empty where the source has the reference.
  std::map<std::string, std::string> reference_headers;
  /// SHA-256 of data, by file: data may have a GiB, and compiling needs none of it.
  std::map<std::string, std::string> data_digests;
};

struct StoredSpec {
  KernelSpec spec;  ///< With its source's text.
  SpecFiles files;
};

/// One line of JSON. Throws: Error{invalid_argument} where names or expressions are no UTF-8;
/// sources may be anything.
std::string stored_text(const StoredSpec& stored);

/// Throws: Error{invalid_argument} for any other text.
StoredSpec read_stored_text(std::string_view text);

// Options of the compiler in specs: those that are passed on, those that change nothing here, and
// what is refused.

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
