// SPDX-License-Identifier: MIT
#include "operations/attention/workload.h"

#include "operations/attention/config.h"
#include "operations/attention/kernel.h"
#include "operations/attention/kv_split_memory.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

#include <utility>

namespace swr {
namespace {

class AttentionTrial final : public Trial {
 public:
  AttentionTrial(std::shared_ptr<const Kernel> kernel, const AttentionLaunchPlan& plan,
                 const ProblemBuffers& buffers, const std::optional<Verifier>& verifier,
                 const Stream& stream)
      : kernel_(std::move(kernel), plan),
        buffers_(buffers),
        verifier_(verifier),
        stream_(stream),
        split_memory_(plan, buffers.params(false), stream) {}

  void launch() override { launch(false); }

  /// With and without lse: the timed launches do not write it.
  Verdict verify() override {
    Verdict verdict = verify(true);
    return verdict.failure.empty() ? verify(false) : verdict;
  }

  Verdict check_after_timing() override { return verifier_.value().check(false); }

 private:
  void launch(bool with_lse) const {
    kernel_.launch(split_memory_.of_launch(buffers_.params(with_lse)), stream_.handle());
  }

  Verdict verify(bool with_lse) const {
    buffers_.poison_outputs(stream_);
    launch(with_lse);
    return verifier_.value().check(with_lse);
  }

  AttentionKernel kernel_;
  const ProblemBuffers& buffers_;
  const std::optional<Verifier>& verifier_;
  const Stream& stream_;
  KvSplitMemory split_memory_;
};

}  // namespace

AttentionWorkload::AttentionWorkload(const AttentionProblem& problem,
                                     const ReferenceKernels& kernels, const Stream& stream,
                                     int sm_count, unsigned long long seed)
    : AttentionWorkload(problem, kernels, stream, sm_count, seed, Reference::computed) {}

AttentionWorkload::AttentionWorkload(const AttentionProblem& problem,
                                     const ReferenceKernels& kernels, const Stream& stream,
                                     int sm_count, unsigned long long seed, Reference reference)
    : problem_(problem),
      kernels_(kernels),
      stream_(stream),
      sm_count_(sm_count),
      seed_(seed),
      buffers_(problem, kernels, stream, seed) {
  if (reference == Reference::computed) {
    verifier_.emplace(kernels, buffers_, stream);
  }
}

std::unique_ptr<Trial> AttentionWorkload::bind(const Variant& variant,
                                               std::shared_ptr<const Kernel> kernel,
                                               int ctas_per_sm) {
  const AttentionLaunchPlan plan =
      launch_plan(buffers_.problem(), variant.as<AttentionVariant>(), sm_count_, ctas_per_sm);
  return std::make_unique<AttentionTrial>(std::move(kernel), plan, buffers_, verifier_, stream_);
}

std::unique_ptr<Workload> AttentionWorkload::copy() {
  return std::unique_ptr<Workload>(new AttentionWorkload(buffers_.problem(), kernels_, stream_,
                                                         sm_count_, seed_, Reference::none));
}

}  // namespace swr
