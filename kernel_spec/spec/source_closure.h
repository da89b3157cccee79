// SPDX-License-Identifier: MIT
// A source and all that it includes from its spec's folder.
#pragma once

#include "kernel_spec/spec/spec_folder.h"

#include <map>
#include <string>
#include <vector>

namespace swr::kernel_spec {

struct SourceClosure {
  std::string text;
  /// By the names they are included with.
  std::map<std::string, std::string> headers;
};

/// Headers that are not in the folder are left to the toolkit, by their plain names.
/// `include_folders` lie below the spec's. Throws: Error{invalid_argument} for includes that could
/// lead elsewhere: absolute, upwards or computed ones; what SpecFolder::read() throws.
SourceClosure source_closure(const SpecFolder& folder, const std::string& file, std::string text,
                             const std::vector<std::string>& include_folders);

/// The names that a source includes, whatever comments and spliced lines surround the directives.
/// Throws: Error{invalid_argument} for a computed one.
std::vector<std::string> included_names(const std::string& text, const std::string& file);

}  // namespace swr::kernel_spec
