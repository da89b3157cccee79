// SPDX-License-Identifier: MIT
#include "operations/attention/buffers.h"

#include <swr/attention_problem.h>

#include <cmath>
#include <numbers>

namespace swr {

TensorLayout make_layout(const TensorShape& shape, int alignment_bytes, MemoryOrder order) {
  constexpr int kHalfBytes = 2;
  const int gap = alignment_bytes == 16 ? 0 : alignment_bytes / kHalfBytes;
  const long long row = shape.head_dim + gap;
  TensorLayout layout;
  TensorStrides& strides = layout.strides;
  if (order == MemoryOrder::bhsd) {
    strides = {.batch = row * shape.seq * shape.heads, .head = row * shape.seq, .seq = row};
  } else {
    strides = {.batch = row * shape.heads * shape.seq, .head = row, .seq = row * shape.heads};
  }
  layout.span_elements = (shape.batch - 1) * strides.batch + (shape.heads - 1) * strides.head +
                         (shape.seq - 1) * strides.seq + shape.head_dim;
  return layout;
}

namespace {

constexpr unsigned char kPoison = 0xff;
/// Larger than any tile row, and a multiple of every alignment.
constexpr std::size_t kGuardBytes = 4096;

/// The driver hands out device addresses as integers.
void* device_pointer(CUdeviceptr address) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return reinterpret_cast<void*>(address);
}

std::size_t lse_bytes(const AttentionProblem& problem) {
  return sizeof(float) * static_cast<std::size_t>(problem.batch) *
         static_cast<std::size_t>(problem.heads_q) * static_cast<std::size_t>(problem.seq_q);
}

void fill_randomly(const GuardedTensor& tensor, DType dtype, const ReferenceKernels& kernels,
                   const Stream& stream, unsigned long long seed) {
  tensor.memory().fill(kPoison, stream);
  const TensorShape& shape = tensor.shape();
  kernels.random_fill.launch({.grid_x = 1024, .block_x = 256}, stream,
                             device_pointer(tensor.address()), tensor.layout().strides, shape.batch,
                             shape.heads, shape.seq, shape.head_dim, static_cast<int>(dtype), seed);
}

}  // namespace

GuardedTensor::GuardedTensor(const TensorShape& shape, int alignment_bytes, MemoryOrder order)
    : shape_(shape),
      layout_(make_layout(shape, alignment_bytes, order)),
      offset_bytes_(kGuardBytes +
                    (alignment_bytes == 16 ? 0U : static_cast<std::size_t>(alignment_bytes))),
      memory_(offset_bytes_ + 2 * static_cast<std::size_t>(layout_.span_elements) + kGuardBytes) {}

ProblemBuffers::ProblemBuffers(const AttentionProblem& problem, const ReferenceKernels& kernels,
                               const Stream& stream, unsigned long long seed, MemoryOrder order)
    : problem_(problem),
      q_({problem.batch, problem.heads_q, problem.seq_q, problem.head_dim}, problem.alignment_bytes,
         order),
      k_({problem.batch, problem.heads_kv, problem.seq_kv, problem.head_dim},
         problem.alignment_bytes, order),
      v_({problem.batch, problem.heads_kv, problem.seq_kv, problem.head_dim},
         problem.alignment_bytes, order),
      o_({problem.batch, problem.heads_q, problem.seq_q, problem.head_dim}, problem.alignment_bytes,
         order),
      lse_memory_(lse_bytes(problem) + 2 * kGuardBytes),
      tile_counter_(2 * sizeof(unsigned)) {
  tile_counter_.fill(0, stream);
  fill_randomly(q_, problem.dtype, kernels, stream, 3 * seed);
  fill_randomly(k_, problem.dtype, kernels, stream, 3 * seed + 1);
  fill_randomly(v_, problem.dtype, kernels, stream, 3 * seed + 2);
  poison_outputs(stream);
}

CUdeviceptr ProblemBuffers::lse_address() const { return lse_memory_.address() + kGuardBytes; }

long long ProblemBuffers::rows() const {
  return static_cast<long long>(problem_.batch) * problem_.heads_q * problem_.seq_q;
}

AttentionParams ProblemBuffers::params(bool with_lse) const {
  AttentionParams params;
  params.q = device_pointer(q_.address());
  params.k = device_pointer(k_.address());
  params.v = device_pointer(v_.address());
  params.o = device_pointer(o_.address());
  params.lse = with_lse ? static_cast<float*>(device_pointer(lse_address())) : nullptr;
  params.q_strides = q_.layout().strides;
  params.k_strides = k_.layout().strides;
  params.v_strides = v_.layout().strides;
  params.o_strides = o_.layout().strides;
  params.batch = problem_.batch;
  params.heads_q = problem_.heads_q;
  params.heads_kv = problem_.heads_kv;
  params.seq_q = problem_.seq_q;
  params.seq_kv = problem_.seq_kv;
  params.scale_log2 =
      std::numbers::log2e_v<float> / std::sqrt(static_cast<float>(problem_.head_dim));
  params.tile_counter = static_cast<unsigned*>(device_pointer(tile_counter_.address()));
  return params;
}

void ProblemBuffers::poison_outputs(const Stream& stream) const {
  o_.memory().fill(kPoison, stream);
  lse_memory_.fill(kPoison, stream);
}

}  // namespace swr
