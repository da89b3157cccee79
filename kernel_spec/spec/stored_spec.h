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

}  // namespace swr::kernel_spec
