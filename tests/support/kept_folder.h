// SPDX-License-Identifier: MIT
// Folders that outlive a test, for what is the same in many.
#pragma once

#include <filesystem>
#include <string>
#include <unistd.h>

namespace swr {

inline std::filesystem::path kept_folder(const std::string& name) {
  return std::filesystem::temp_directory_path() /
         ("swr_tests_" + name + "_" + std::to_string(getuid()));
}

/// A cache of kernels for tests that are not about compiling: the first one that needs a kernel
/// compiles it, and the others believe what it stored.
inline std::filesystem::path kept_kernels() { return kept_folder("kernels"); }

}  // namespace swr
