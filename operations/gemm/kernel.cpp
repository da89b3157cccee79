// SPDX-License-Identifier: MIT
#include "operations/gemm/kernel.h"

#include <tuple>
#include <utility>

namespace swr {
namespace {

/// True when the same tensor maps serve both.
bool maps_alike(const GemmParams& a, const GemmParams& b) {
  const auto key = [](const GemmParams& p) {
    return std::tuple(p.a, p.b, p.c, p.partials, p.splits, p.m, p.n, p.k, p.batch,
                      p.a_strides.batch, p.a_strides.row, p.b_strides.batch, p.b_strides.row,
                      p.c_strides.batch, p.c_strides.row);
  };
  return key(a) == key(b);
}

}  // namespace

GemmKernel::GemmKernel(const CompiledKernel& kernel, const Config& config, int workers)
    : GemmKernel(std::make_shared<const Kernel>(kernel), config, workers) {}

GemmKernel::GemmKernel(std::shared_ptr<const Kernel> kernel, const Config& config, int workers)
    : kernel_(std::move(kernel)), config_(config), workers_(workers) {
  require_success(std::visit(
                      [&](const auto& one) {
                        return prepare_gemm(cuda_driver().launch_calls, kernel_->handle(), one);
                      },
                      config_),
                  "cuFuncSetAttribute");
}

void GemmKernel::launch(const GemmParams& params, CUstream stream, LaunchOverlap overlap,
                        const GemmExtras& extras) {
  if (!mapped_ || !maps_alike(*mapped_, params)) {
    encode_maps(params);
  }
  const LaunchOverlap possible = kernel_->may_overlap() ? overlap : LaunchOverlap::none;
  require_success(std::visit(
                      [&](const auto& one) {
                        return launch_gemm(cuda_driver().launch_calls, kernel_->handle(), one,
                                           params, extras, maps_, workers_, possible, stream);
                      },
                      config_),
                  "cuLaunchKernelEx");
}

void GemmKernel::encode_maps(const GemmParams& params) {
  require_success(std::visit(
                      [&](const auto& one) {
                        return encode_gemm_maps(cuda_driver().launch_calls, one, params, maps_);
                      },
                      config_),
                  "cuTensorMapEncodeTiled");
  mapped_ = params;
}

}  // namespace swr
