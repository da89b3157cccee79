// SPDX-License-Identifier: MIT
// The kernels of templates/reference that serve attention, compiled and loaded for the current
// context.
#pragma once

#include "driver/cuda_driver.h"
#include <swr/generator.h>

namespace swr {

struct ReferenceKernels {
  /// Throws: Error{compile_failed}; DriverError.
  ReferenceKernels(const Generator& generator, int sm_arch);

  Kernel attention;
  Kernel random_fill;
  Kernel compare_output;
  Kernel compare_lse;
  Kernel count_disturbed;
};

}  // namespace swr
