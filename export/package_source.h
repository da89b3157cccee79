// SPDX-License-Identifier: MIT
// The files of a generated C++ package: tuned kernels as a library that needs nothing but the CUDA
// driver. Dispatch, distance and launch are the very files that swr itself uses.
#pragma once

#include "export/manifest.h"
#include <swr/generator.h>

#include <map>
#include <string>
#include <vector>

namespace swr {

/// Contents by path below the package's directory.
using PackageFiles = std::map<std::string, std::string>;

inline constexpr const char* kPackageFormat = "swr-package";

/// `kernels` are the cubins of the manifest's kernels, in their order. `name` becomes the name of
/// library and namespace. Equal inputs give equal bytes.
/// Throws: Error{invalid_argument} for a name that is no C++ identifier, or `swr`.
PackageFiles package_files(const Manifest& manifest, const std::vector<CompiledKernel>& kernels,
                           const std::string& name);

}  // namespace swr
