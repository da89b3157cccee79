// SPDX-License-Identifier: MIT
// Attention as a workload.
#pragma once

#include "operations/attention/buffers.h"
#include "operations/attention/verifier.h"
#include "operations/workload.h"
#include <swr/attention_problem.h>

#include <optional>

namespace swr {

class AttentionWorkload final : public Workload {
 public:
  /// Computes the reference. `kernels` and `stream` must outlive the workload.
  /// Throws: DriverError, also when the device is out of memory.
  AttentionWorkload(const AttentionProblem& problem, const ReferenceKernels& kernels,
                    const Stream& stream, int sm_count, unsigned long long seed);

  const Problem& problem() const override { return problem_; }
  std::unique_ptr<Trial> bind(const Variant& variant, std::shared_ptr<const Kernel> kernel,
                              int ctas_per_sm) override;
  std::unique_ptr<Workload> copy() override;

 private:
  enum class Reference { computed, none };
  AttentionWorkload(const AttentionProblem& problem, const ReferenceKernels& kernels,
                    const Stream& stream, int sm_count, unsigned long long seed,
                    Reference reference);

  Problem problem_;
  const ReferenceKernels& kernels_;
  const Stream& stream_;
  int sm_count_;
  unsigned long long seed_;
  ProblemBuffers buffers_;
  std::optional<Verifier> verifier_;
};

}  // namespace swr
