// SPDX-License-Identifier: MIT
// Kernels that tests draw from the space of a problem.
#pragma once

#include "tests/gpu/gpu_test.h"
#include <swr/kernel.h>
#include <swr/problem.h>
#include <swr/variant.h>

#include <random>

namespace swr {

/// What an environment variable says, at least 1; without it `usual`.
int count_of(const char* variable, int usual);

struct DrawnKernel {
  Variant variant;
  CompiledKernel compiled;
  int ctas_per_sm = 1;
};

/// A variant that no constraint forbids, compiled or not: half of the time of the Hopper family
/// where the device and the problem have it.
DrawnKernel drawn_kernel(GpuBench& bench, const Problem& problem, std::mt19937& random);

/// The same of this variant.
DrawnKernel compiled_kernel(GpuBench& bench, const Problem& problem, const Variant& variant);

}  // namespace swr
