// SPDX-License-Identifier: MIT
#include "tuner/driver/gemm_kernel.h"

#include <tuple>
#include <utility>

namespace swr {
namespace {

/// True when the same tensor maps serve both.
bool maps_alike(const GemmParams& a, const GemmParams& b) {
  const auto key = [](const GemmParams& p) {
    return std::tuple(p.a, p.b, p.c, p.m, p.n, p.k, p.batch, p.a_strides.batch, p.a_strides.row,
                      p.b_strides.batch, p.b_strides.row, p.c_strides.batch, p.c_strides.row);
  };
  return key(a) == key(b);
}

}  // namespace

const GemmLaunchCalls& gemm_launch_calls() {
  static const GemmLaunchCalls calls = find_gemm_launch_calls(
      [](const char* name) { return cuda_driver().library.function<void()>(name); });
  return calls;
}

GemmKernel::GemmKernel(std::span<const std::byte> cubin, const std::string& entry,
                       const Config& config, int workers)
    : GemmKernel(std::make_shared<const Kernel>(cubin, entry), config, workers) {}

GemmKernel::GemmKernel(std::shared_ptr<const Kernel> kernel, const Config& config, int workers)
    : kernel_(std::move(kernel)), config_(config), workers_(workers) {
  require_success(std::visit(
                      [&](const auto& one) {
                        return prepare_gemm(gemm_launch_calls(), kernel_->handle(), one);
                      },
                      config_),
                  "cuFuncSetAttribute");
}

void GemmKernel::launch(const GemmParams& params, CUstream stream, LaunchOverlap overlap) {
  if (!mapped_ || !maps_alike(*mapped_, params)) {
    encode_maps(params);
  }
  require_success(std::visit(
                      [&](const auto& one) {
                        return launch_gemm(gemm_launch_calls(), kernel_->handle(), one, params,
                                           maps_, workers_, stream, overlap);
                      },
                      config_),
                  "cuLaunchKernelEx");
}

void GemmKernel::encode_maps(const GemmParams& params) {
  require_success(std::visit(
                      [&](const auto& one) {
                        return encode_gemm_maps(gemm_launch_calls(), one, params, maps_);
                      },
                      config_),
                  "cuTensorMapEncodeTiled");
  mapped_ = params;
}

}  // namespace swr
