// SPDX-License-Identifier: MIT
// Attention as a workload.
#pragma once

#include "driver/cuda_driver.h"
#include "operations/attention/attention_launch.h"
#include "operations/attention/launch_plan.h"
#include "operations/verdict.h"
#include "operations/workload.h"
#include <swr/attention_params.h>
#include <swr/attention_problem.h>
#include <swr/generator.h>
#include <swr/problem.h>

#include <cstddef>
#include <memory>
#include <optional>

namespace swr {

// An attention kernel of a loaded cubin, ready to be launched.

class AttentionKernel {
 public:
  /// Throws: DriverError when the cubin does not fit the device or lacks the entry.
  AttentionKernel(const CompiledKernel& kernel, const AttentionLaunchPlan& plan);
  /// Of a kernel that others may launch too, in plans with as much shared memory.
  AttentionKernel(std::shared_ptr<const Kernel> kernel, const AttentionLaunchPlan& plan);

  /// Enqueues one launch, which overlaps the one before where the kernel may. Throws: DriverError.
  void launch(const AttentionParams& params, CUstream stream,
              LaunchOverlap overlap = LaunchOverlap::allowed) const;

 private:
  std::shared_ptr<const Kernel> kernel_;
  AttentionLaunchPlan plan_;
};

struct ReferenceKernels {
  /// Throws: Error{compile_failed}; DriverError.
  ReferenceKernels(const Generator& generator, int sm_arch);

  Kernel attention;
  Kernel random_fill;
  Kernel compare_output;
  Kernel compare_lse;
  Kernel count_disturbed;
};

// What the splits of an attention kernel leave for each other, for launches one after the other.

class KvSplitMemory {
 public:
  /// For launches of the sizes of `params`. Nothing is allocated for kernels without splits.
  /// Throws: DriverError, also when the device is out of memory.
  KvSplitMemory(const AttentionLaunchPlan& plan, const AttentionParams& params,
                const Stream& stream) {
    const LaunchGeometry geometry = launch_geometry(plan, params);
    if (geometry.partials_bytes > 0) {
      constexpr unsigned char kNaN = 0xff;
      partials_ = DeviceBuffer(static_cast<std::size_t>(geometry.partials_bytes));
      partials_.fill(kNaN, stream);  // What no split writes shows.
      arrivals_ = DeviceBuffer(static_cast<std::size_t>(geometry.arrival_words) * 4);
      arrivals_.fill(0, stream);
    }
  }

  AttentionParams of_launch(AttentionParams params) const {
    // NOLINTBEGIN(performance-no-int-to-ptr): device addresses are integers.
    params.partials = reinterpret_cast<float*>(partials_.address());
    params.arrivals = reinterpret_cast<unsigned*>(arrivals_.address());
    // NOLINTEND(performance-no-int-to-ptr)
    return params;
  }

 private:
  DeviceBuffer partials_;
  DeviceBuffer arrivals_;
};

// Device memory of one problem: random inputs, poisoned outputs, guards around all of them.

/// Order of the dimensions in memory, outermost first.
enum class MemoryOrder {
  bhsd,  ///< [batch, head, sequence, head_dim]
  bshd,  ///< [batch, sequence, head, head_dim], as projections produce it
};

struct TensorShape {
  int batch = 1;
  int heads = 1;
  int seq = 1;
  int head_dim = 16;
};

struct TensorLayout {
  TensorStrides strides;
  /// Elements from the first to the last, gaps included.
  long long span_elements = 0;
};

/// Dense when alignment_bytes is 16. Otherwise rows lie alignment_bytes further apart than they
/// are long, so that no larger power of two divides the strides.
TensorLayout make_layout(const TensorShape& shape, int alignment_bytes, MemoryOrder order);

/// A strided 16-bit tensor inside a larger allocation. Guards and gaps hold 0xff bytes, which is
/// NaN in fp16, bf16 and fp32: reading them spoils the output, writing them is found afterwards.
class GuardedTensor {
 public:
  GuardedTensor(const TensorShape& shape, int alignment_bytes, MemoryOrder order);

  const TensorShape& shape() const { return shape_; }
  const TensorLayout& layout() const { return layout_; }
  const DeviceBuffer& memory() const { return memory_; }
  /// Address of element 0; no larger power of two than the problem's alignment divides it.
  CUdeviceptr address() const { return memory_.address() + offset_bytes_; }
  std::size_t offset_bytes() const { return offset_bytes_; }

 private:
  TensorShape shape_;
  TensorLayout layout_;
  std::size_t offset_bytes_;
  DeviceBuffer memory_;
};

class ProblemBuffers {
 public:
  /// Fills Q, K and V with normally distributed values drawn from the seed.
  /// Throws: DriverError, also when the device is out of memory.
  ProblemBuffers(const AttentionProblem& problem, const ReferenceKernels& kernels,
                 const Stream& stream, unsigned long long seed,
                 MemoryOrder order = MemoryOrder::bhsd);

  const AttentionProblem& problem() const { return problem_; }
  const GuardedTensor& q() const { return q_; }
  const GuardedTensor& k() const { return k_; }
  const GuardedTensor& v() const { return v_; }
  const GuardedTensor& o() const { return o_; }

  /// Log-sum-exp rows, fp32, between guards.
  const DeviceBuffer& lse_memory() const { return lse_memory_; }
  CUdeviceptr lse_address() const;
  long long rows() const;

  /// Arguments of a launch, but for section_heads, which it fills in. Scale is 1 / sqrt(head_dim).
  AttentionParams params(bool with_lse) const;

  /// Fills O, lse and what surrounds them with 0xff bytes.
  void poison_outputs(const Stream& stream) const;

 private:
  AttentionProblem problem_;
  GuardedTensor q_;
  GuardedTensor k_;
  GuardedTensor v_;
  GuardedTensor o_;
  DeviceBuffer lse_memory_;
  /// AttentionParams::tile_counter; launches follow each other on one stream, so they share it.
  DeviceBuffer tile_counter_;
};

// Checks outputs of one problem against the fp32 reference, on the GPU.

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
