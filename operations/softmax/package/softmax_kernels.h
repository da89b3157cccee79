// SPDX-License-Identifier: MIT
// The table of embedded softmax kernels.
#pragma once

#include "export/package/plain_kernels.h"
#include "templates/softmax/config.h"

#include <cstddef>

namespace swr_package {

struct SoftmaxKernel {
  EmbeddedKernel embedded;
  PlainProblem problem;  ///< Rows and columns; type and alignment.
  swr::SoftmaxConfig config;

  bool fits(const PlainProblem& asked, int smem_per_cta_bytes) const {
    return config.holds(asked.lengths[1]) && config.smem_bytes() <= smem_per_cta_bytes;
  }
};

extern const SoftmaxKernel kSoftmaxKernels[];
extern const std::size_t kSoftmaxKernelCount;

}  // namespace swr_package
