// SPDX-License-Identifier: MIT
// The device memory of one softmax, verified in fp64 on random data.
#pragma once

#include "operations/guarded_rows.h"
#include "operations/softmax/softmax.h"
#include "templates/reference/gemm_comparison.h"

namespace swr {

struct SoftmaxReference {
  SoftmaxReference(const Generator& generator, int sm_arch)
      : compare(load_template(generator, sm_arch, "softmax/reference.cu", "swr_softmax_compare")) {}
  Kernel compare;
};

/// What PlainWorkload (operations/plain_operation.h) asks for.
class SoftmaxTensors {
 public:
  SoftmaxTensors(const Problem& problem, const WorkloadTools& tools, unsigned long long seed)
      : problem_(problem.as<SoftmaxProblem>()),
        compare_(tools.kernels<SoftmaxReference>().compare),
        stream_(tools.stream),
        x_(tools, problem_.rows, problem_.columns, problem_.dtype, problem_.alignment_bytes),
        y_(tools, problem_.rows, problem_.columns, problem_.dtype, problem_.alignment_bytes) {
    x_.fill_random(seed);
    stream_.synchronize();
  }

  SoftmaxParams params() const {
    return {x_.address(), y_.address(), x_.stride(), y_.stride(), problem_.rows, problem_.columns};
  }
  void poison() const { y_.poison(); }
  Verdict judge() const {
    const auto found = result_of<reference::GemmComparison>(compare_, stream_, params(),
                                                            static_cast<int>(problem_.dtype));
    return judge_elements(found, y_.disturbed_words());
  }

 private:
  SoftmaxProblem problem_;
  const Kernel& compare_;
  const Stream& stream_;
  GuardedRows x_;
  GuardedRows y_;
};

}  // namespace swr
