// SPDX-License-Identifier: MIT
#include "operations/attention/kernel.h"

#include "templates/reference/launch_shape.h"

#include <utility>

namespace swr {

AttentionKernel::AttentionKernel(const CompiledKernel& kernel, const AttentionLaunchPlan& plan)
    : AttentionKernel(std::make_shared<const Kernel>(kernel), plan) {}

AttentionKernel::AttentionKernel(std::shared_ptr<const Kernel> kernel,
                                 const AttentionLaunchPlan& plan)
    : kernel_(std::move(kernel)), plan_(plan) {
  require_success(prepare_attention(cuda_driver().launch_calls, kernel_->handle(), plan_),
                  "cuFuncSetAttribute");
}

void AttentionKernel::launch(const AttentionParams& params, CUstream stream,
                             LaunchOverlap overlap) const {
  require_success(launch_attention(cuda_driver().launch_calls, kernel_->handle(), plan_, params,
                                   kernel_->may_overlap() ? overlap : LaunchOverlap::none, stream),
                  "cuLaunchKernelEx");
}

namespace {

/// A template's cubin holds all its kernels, whichever entry it was compiled for.
struct Cubin {
  Cubin(const Generator& generator, int sm_arch, const char* path, const char* entry)
      : code(generator.compile_template(path, entry, sm_arch).cubin) {}

  Kernel kernel(const char* entry) const { return Kernel(code, entry); }

  std::vector<std::byte> code;
};

}  // namespace

ReferenceKernels::ReferenceKernels(const Generator& generator, int sm_arch) {
  attention =
      Cubin(generator, sm_arch, "reference/attention_reference.cu", "swr_attention_reference")
          .kernel("swr_attention_reference");
  attention.allow_dynamic_smem(reference::kSmemBytes);
  random_fill = Cubin(generator, sm_arch, "reference/random_fill.cu", "swr_random_fill")
                    .kernel("swr_random_fill");
  const Cubin comparison(generator, sm_arch, "reference/compare.cu", "swr_compare_output");
  compare_output = comparison.kernel("swr_compare_output");
  compare_lse = comparison.kernel("swr_compare_lse");
  count_disturbed = comparison.kernel("swr_count_disturbed");
}

}  // namespace swr
