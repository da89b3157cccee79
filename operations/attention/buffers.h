// SPDX-License-Identifier: MIT
// Device memory of one problem: random inputs, poisoned outputs, guards around all of them.
#pragma once

#include "driver/cuda_driver.h"
#include "operations/attention/kernel.h"
#include <swr/attention_params.h>
#include <swr/attention_problem.h>
#include <swr/problem.h>

namespace swr {

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

}  // namespace swr
