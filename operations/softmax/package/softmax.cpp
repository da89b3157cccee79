// SPDX-License-Identifier: MIT
#include "operations/softmax/package/softmax.h"

#include "operations/softmax/package/softmax_kernels.h"

namespace swr_package {
namespace {

PlainProblem problem_of(const SoftmaxCall& call) {
  require_argument(
      call.rows >= 1 && call.columns >= 1,
      "softmax needs rows and columns, not " + text(call.rows) + " x " + text(call.columns));
  Alignment alignment;
  alignment.add_pointer(call.x);
  alignment.add_pointer(call.y);
  alignment.add_stride(call.x_stride, call.rows, 2);
  alignment.add_stride(call.y_stride, call.rows, 2);
  require_argument(alignment.bytes() >= 2, "addresses must be multiples of an element's 2 bytes");
  return {{call.rows, call.columns, 1, 1, 1}, {static_cast<int>(call.dtype), alignment.bytes()}};
}

}  // namespace

struct Softmax::Impl : PlainKernels<SoftmaxKernel> {
  Impl() : PlainKernels(std::span(kSoftmaxKernels, kSoftmaxKernelCount)) {}
};

Softmax::Softmax() : impl_(std::make_unique<Impl>()) {}
Softmax::~Softmax() = default;

void Softmax::run(const SoftmaxCall& call, CUstream_st* stream) {
  const auto& [x, y, x_stride, y_stride, rows, columns, dtype] = call;
  impl_->run(problem_of(call), swr::SoftmaxParams{x, y, x_stride, y_stride, rows, columns}, stream);
}

Choice Softmax::prepare(const SoftmaxCall& call) { return impl_->prepare(problem_of(call)); }

}  // namespace swr_package
