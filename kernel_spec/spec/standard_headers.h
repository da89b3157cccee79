// SPDX-License-Identifier: MIT
// Stand-ins for headers of the standard library, which NVRTC does not have.
#pragma once

#include "core/operation.h"

namespace swr::kernel_spec {

/// Adds them to a program that names one, or cub or thrust, which do. Each is libcu++'s header of
/// the same name, with std:: for cuda::std::. Headers that the program has stay.
void add_standard_headers(KernelProgram& program);

}  // namespace swr::kernel_spec
