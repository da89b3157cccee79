// SPDX-License-Identifier: MIT
// GEMM in exported packages.
#pragma once

#include "core/package_text.h"

#include <string>

namespace swr {

const PackagePart& gemm_package_part();
/// Problem and launch of a kernel, as C++ of the package's table.
std::string gemm_package_row(const PackagedKernel& kernel);

}  // namespace swr
