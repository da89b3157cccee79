// SPDX-License-Identifier: MIT
#include "operations/attention/verifier.h"

#include "templates/reference/launch_shape.h"
#include <swr/attention_problem.h>

#include <span>

namespace swr {
namespace {

constexpr LaunchShape kComparisonShape{.grid_x = 1024, .block_x = 256};

void compute_reference(const ReferenceKernels& kernels, const ProblemBuffers& buffers,
                       const Stream& stream, CUdeviceptr output, CUdeviceptr lse) {
  const AttentionProblem& problem = buffers.problem();
  AttentionParams params = buffers.params(true);
  // NOLINTBEGIN(performance-no-int-to-ptr): device addresses are integers.
  params.o = reinterpret_cast<void*>(output);
  params.lse = reinterpret_cast<float*>(lse);
  // NOLINTEND(performance-no-int-to-ptr)
  const long long ctas = reference::cta_count(problem.batch * problem.heads_q, problem.seq_q);
  const LaunchShape shape{.grid_x = static_cast<unsigned>(ctas),
                          .block_x = reference::kThreads,
                          .dynamic_smem_bytes = reference::kSmemBytes};
  kernels.attention.launch(shape, stream, params, static_cast<int>(problem.dtype),
                           problem.causal ? 1 : 0, problem.head_dim);
  stream.synchronize();
}

}  // namespace

Verifier::Verifier(const ReferenceKernels& kernels, const ProblemBuffers& buffers,
                   const Stream& stream)
    : kernels_(kernels),
      buffers_(buffers),
      stream_(stream),
      output_(sizeof(float) * static_cast<std::size_t>(buffers.rows()) *
              static_cast<std::size_t>(buffers.problem().head_dim)),
      lse_(sizeof(float) * static_cast<std::size_t>(buffers.rows())),
      comparison_(sizeof(reference::Comparison)) {
  compute_reference(kernels, buffers, stream, output_.address(), lse_.address());
}

Verdict Verifier::check(bool with_lse) const {
  const AttentionProblem& problem = buffers_.problem();
  comparison_.fill(0, stream_);
  kernels_.compare_output.launch(kComparisonShape, stream_, buffers_.params(with_lse),
                                 output_.address(), static_cast<int>(problem.dtype),
                                 problem.head_dim, comparison_.address());
  if (with_lse) {
    kernels_.compare_lse.launch(kComparisonShape, stream_, buffers_.lse_address(), lse_.address(),
                                buffers_.rows(), comparison_.address());
  }
  count_disturbed(buffers_.o().memory());
  count_disturbed(buffers_.lse_memory());
  stream_.synchronize();
  reference::Comparison comparison;
  comparison_.download(std::as_writable_bytes(std::span(&comparison, 1)));
  return judge(comparison, problem.dtype);
}

void Verifier::count_disturbed(const DeviceBuffer& memory) const {
  kernels_.count_disturbed.launch(kComparisonShape, stream_, memory.address(),
                                  static_cast<long long>(memory.size_bytes() / 2),
                                  comparison_.address());
}

}  // namespace swr
