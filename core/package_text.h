// SPDX-License-Identifier: MIT
// What an operation brings to an exported C++ package, and how values are written there.
#pragma once

#include "core/embedded_file.h"
#include <swr/problem.h>
#include <swr/variant.h>

#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace swr {

/// Contents by path below a package's directory.
using PackageTexts = std::map<std::string, std::string>;

/// How an operation appears in a package.
struct PackagePart {
  std::string_view name;                     ///< Of its header, source and table.
  std::string_view type;                     ///< Of its kernels.
  std::span<const EmbeddedFile> (*files)();  ///< What packages with such kernels carry.
  /// What is written for this operation alone, as in a package called swr_package.
  PackageTexts (*own_files)(const Operation& operation) = nullptr;
};

/// A kernel of a package.
struct PackagedKernel {
  const Problem& problem;
  const Variant& variant;
  int sm_count = 0;  ///< Of the device that it was tuned for.
  int ctas_per_sm = 0;
  std::string entry = {};
  std::span<const std::string> further_entries = {};
};

// Values as C++ of the package.
inline std::string package_list(std::initializer_list<std::string> parts) {
  std::string text;
  for (const std::string& part : parts) {
    text += (text.empty() ? "" : ", ") + part;
  }
  return "{" + text + "}";
}

inline std::string package_truth(bool value) { return value ? "true" : "false"; }

}  // namespace swr
