// SPDX-License-Identifier: MIT
// GEMM as a workload.
#pragma once

#include "operations/gemm/buffers.h"
#include "operations/workload.h"
#include <swr/gemm_problem.h>

#include <optional>

namespace swr {

/// Rows lie as close as the alignment allows, as in most programs. alpha is 1; beta is 1/2 where C
/// is read, else 0.
class GemmWorkload final : public Workload {
 public:
  /// Computes the expected C, on random data and on data of 0 and 1. `kernels` and `stream` must
  /// outlive the workload. Throws: DriverError, also when the device is out of memory.
  GemmWorkload(const GemmProblem& problem, const GemmReferenceKernels& kernels,
               const Stream& stream, int sm_count, unsigned long long seed);

  const Problem& problem() const override { return problem_; }
  std::unique_ptr<Trial> bind(const Variant& variant, std::shared_ptr<const Kernel> kernel,
                              int ctas_per_sm) override;
  std::unique_ptr<Workload> copy() override;

 private:
  GemmWorkload(const GemmProblem& problem, const GemmReferenceKernels& kernels,
               const Stream& stream, int sm_count, unsigned long long seed, ExpectedC expected);

  Problem problem_;
  const GemmReferenceKernels& kernels_;
  const Stream& stream_;
  int sm_count_;
  unsigned long long seed_;
  GemmBuffers random_;
  /// Empty for copies, and where C is read in fp32, whose inputs no sum of is exact.
  std::optional<GemmBuffers> exact_;
};

}  // namespace swr
