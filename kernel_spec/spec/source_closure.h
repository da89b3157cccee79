// SPDX-License-Identifier: MIT
// The headers that a source may include from its spec's folder.
#pragma once

#include "kernel_spec/spec/spec_folder.h"

#include <map>
#include <string>
#include <vector>

namespace swr::kernel_spec {

/// Texts by path below the spec's folder: what `text`, the file `file`, names in its directives,
/// and what these name (core/header_names.h), comments and dead branches included. Names that lead
/// to no file of the folder are left to the compiler, which has these headers and CUDA's alone.
/// Throws: Error{invalid_argument} for too many; what SpecFolder::read() throws.
std::map<std::string, std::string> headers_below(const SpecFolder& folder, const std::string& file,
                                                 const std::string& text,
                                                 const std::vector<std::string>& include_folders);

}  // namespace swr::kernel_spec
