// SPDX-License-Identifier: MIT
// The table of embedded kernels.
#pragma once

#include "core/launch_plan.h"
#include "core/shape_distance.h"
#include <swr/axes.h>

#include <cstddef>
#include <cstdint>

namespace swr_package {

/// The problem that a kernel was tuned for.
struct Problem {
  int batch = 1;
  int heads_q = 1;
  int heads_kv = 1;
  int seq_q = 1;
  int seq_kv = 1;
  int head_dim = 64;
  swr::DType dtype = swr::DType::fp16;
  bool causal = false;
  int alignment_bytes = 16;
};

struct EmbeddedKernel {
  const char* name;
  const char* entry;
  const char* sha256;
  const std::uint64_t* cubin;
  std::size_t cubin_bytes;
  Problem problem;
  swr::DevicePoint device;
  bool measured;
  swr::LaunchPlan plan;
  /// A persistent launch has as many CTAs as are resident, rather than plan.workers.
  bool fills_device;
};

extern const EmbeddedKernel kKernels[];
extern const std::size_t kKernelCount;

}  // namespace swr_package
