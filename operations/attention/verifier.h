// SPDX-License-Identifier: MIT
// Checks outputs of one problem against the fp32 reference, on the GPU.
#pragma once

#include "driver/cuda_driver.h"
#include "operations/attention/buffers.h"
#include "operations/attention/kernel.h"
#include "operations/verdict.h"

namespace swr {

class Verifier {
 public:
  /// Computes the reference of the problem in `buffers`. All arguments must outlive the verifier.
  /// Throws: DriverError.
  Verifier(const ReferenceKernels& kernels, const ProblemBuffers& buffers, const Stream& stream);

  /// Judges what a launch left in the buffers; without `with_lse`, lse must be untouched. Waits
  /// for the stream, so a fault of that launch surfaces here. Leaves the outputs poisoned.
  /// Throws: DriverError.
  Verdict check(bool with_lse) const;

  /// fp32 [batch, heads_q, seq_q, head_dim], contiguous.
  const DeviceBuffer& reference_output() const { return output_; }
  /// fp32 [batch, heads_q, seq_q].
  const DeviceBuffer& reference_lse() const { return lse_; }

 private:
  void count_disturbed(const DeviceBuffer& memory) const;

  const ReferenceKernels& kernels_;
  const ProblemBuffers& buffers_;
  const Stream& stream_;
  DeviceBuffer output_;
  DeviceBuffer lse_;
  DeviceBuffer comparison_;
};

}  // namespace swr
