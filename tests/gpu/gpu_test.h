// SPDX-License-Identifier: MIT
// What all GPU tests share: one device, one context, the reference kernels and compiled variants.
#pragma once

#include "driver/cuda_driver.h"
#include "operations/attention/workload.h"
#include "operations/gemm/buffers.h"
#include "tests/support/test.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/device.h>
#include <swr/generator.h>

#include <mutex>

namespace swr {

inline std::string text(int value) { return std::to_string(value); }

/// Lives in the device's primary context.
struct GpuBench {
  GpuBench();

  /// Compiles a variant for the device; kernels are kept for later tests.
  const CompiledKernel& compile(const AttentionProblem& problem, const AttentionVariant& variant);
  /// Made on first use, by whichever thread, and gone before the context.
  const GemmReferenceKernels& gemm_kernels();

  DeviceInfo device;
  PrimaryContext context;
  Stream stream;
  Generator generator;
  ReferenceKernels kernels;

 private:
  std::map<std::string, CompiledKernel> compiled_;
  std::once_flag gemm_kernels_are_made_;
  std::unique_ptr<GemmReferenceKernels> gemm_kernels_;
};

/// Skips where there is no GPU, or fails instead when SWR_REQUIRE_GPU=1: a skipped suite must not
/// look like a passed one where a GPU is expected.
class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override;

  /// The bench, made on first use.
  static GpuBench& bench();
};

/// True when the environment says that a GPU must be there.
bool gpu_is_required();

}  // namespace swr
