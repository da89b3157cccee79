// SPDX-License-Identifier: MIT
#include "operations/attention/kernel.h"

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

}  // namespace swr
