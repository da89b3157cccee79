// SPDX-License-Identifier: MIT
#include "operations/gemm/workload.h"

#include "operations/gemm/config.h"
#include "operations/gemm/kernel.h"
#include <swr/gemm_variant.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace swr {
namespace {

float beta_of(const GemmProblem& problem) { return problem.reads_c ? 0.5F : 0.0F; }

GemmBuffers buffers_of(const GemmProblem& problem, const GemmReferenceKernels& kernels,
                       const Stream& stream, GemmInputs inputs, unsigned long long seed,
                       ExpectedC expected) {
  return {problem, kernels, stream, inputs, 1.0F, beta_of(problem), RowGap::none, seed, expected};
}

/// Largest relative L2 error: what rounding C leaves, what tensor cores drop of sums of FP8 (the
/// largest measured and half as much again: experiments/gemm/fp8), and what tanh.approx adds.
double error_tolerance(const GemmProblem& p) {
  double tolerance = error_tolerance(p.output);
  if (is_fp8(p.dtype)) {
    const double summed = p.accuracy == Accuracy::fast ? p.k : std::min(p.k, 1024);
    tolerance += 5e-4 * std::pow(std::max(summed, 512.0) / 512.0, 0.7);
  }
  return p.activation == Activation::none && !p.gated ? tolerance : tolerance + 1e-3;
}

/// With what the variant chooses at launch.
GemmParams chosen(GemmParams params, const GemmVariant& variant) {
  params.raster = variant.raster;
  params.raster_group = variant.raster_group;
  params.swizzle_stride = variant.swizzle_stride;
  params.splits = variant.splits;
  return params;
}

/// What launches of a variant share: partial sums of splits, copied rows, and who has arrived.
struct SplitMemory {
  SplitMemory(const GemmBuffers& buffers, const GemmVariant& variant, const Stream& stream)
      : SplitMemory(std::visit(
            [&](const auto& config) {
              const GemmParams params = chosen(buffers.params(), variant);
              return std::pair(workspace_bytes(config, params), config.arrival_words(params));
            },
            make_gemm_config(buffers.problem(), variant))) {
    arrivals.fill(0, stream);
  }

  explicit SplitMemory(const std::pair<long long, long long>& bytes_and_words)
      : partials(at_least_one(bytes_and_words.first)),
        arrivals(at_least_one(bytes_and_words.second * 4)) {}

  static std::size_t at_least_one(long long bytes) {
    constexpr long long kLeast = 16;
    return static_cast<std::size_t>(std::max(bytes, kLeast));
  }

  DeviceBuffer partials;
  DeviceBuffer arrivals;
};

class GemmTrial final : public Trial {
 public:
  GemmTrial(std::shared_ptr<const Kernel> kernel, const GemmProblem& problem,
            const GemmVariant& variant, int workers, const GemmBuffers& random,
            const std::optional<GemmBuffers>& exact, const Stream& stream)
      : kernel_(std::move(kernel), make_gemm_config(problem, variant), workers),
        variant_(variant),
        split_(random, variant, stream),
        random_(random),
        exact_(exact),
        stream_(stream) {}

  void launch() override { launch(random_); }

  Verdict verify() override {
    if (exact_) {
      exact_->reset_output(stream_);
      launch(*exact_);
      const reference::GemmComparison comparison = exact_->compare(stream_);
      Verdict verdict = judge_exact(comparison, exact_->disturbed_words(stream_));
      if (!verdict.failure.empty()) {
        return verdict;
      }
    }
    random_.reset_output(stream_);
    launch(random_);
    return judge_random();
  }

  /// Where C is read, every launch changed it.
  Verdict check_after_timing() override {
    return random_.problem().reads_c ? verify() : judge_random();
  }

 private:
  void launch(const GemmBuffers& buffers) {
    GemmParams params = chosen(buffers.params(), variant_);
    // NOLINTBEGIN(performance-no-int-to-ptr): device addresses are integers.
    params.partials = reinterpret_cast<float*>(split_.partials.address());
    params.arrivals = reinterpret_cast<unsigned*>(split_.arrivals.address());
    // NOLINTEND(performance-no-int-to-ptr)
    kernel_.launch(params, stream_.handle(), LaunchOverlap::allowed, buffers.extras());
  }

  Verdict judge_random() const {
    const reference::GemmComparison comparison = random_.compare(stream_);
    return judge(comparison, error_tolerance(random_.problem()), random_.disturbed_words(stream_));
  }

  GemmKernel kernel_;
  GemmVariant variant_;
  SplitMemory split_;
  const GemmBuffers& random_;
  const std::optional<GemmBuffers>& exact_;
  const Stream& stream_;
};

}  // namespace

GemmWorkload::GemmWorkload(const GemmProblem& problem, const GemmReferenceKernels& kernels,
                           const Stream& stream, int sm_count, unsigned long long seed)
    : GemmWorkload(problem, kernels, stream, sm_count, seed, ExpectedC::computed) {}

GemmWorkload::GemmWorkload(const GemmProblem& problem, const GemmReferenceKernels& kernels,
                           const Stream& stream, int sm_count, unsigned long long seed,
                           ExpectedC expected)
    : problem_(problem),
      kernels_(kernels),
      stream_(stream),
      sm_count_(sm_count),
      seed_(seed),
      random_(buffers_of(problem, kernels, stream, GemmInputs::random, seed, expected)) {
  const bool is_representable = (!problem.reads_c || problem.output != OutputType::fp32) &&
                                problem.activation == Activation::none && !problem.gated &&
                                problem.output != OutputType::fp8;
  if (expected == ExpectedC::computed && is_representable) {
    exact_.emplace(buffers_of(problem, kernels, stream, GemmInputs::binary, seed, expected));
  }
}

std::unique_ptr<Trial> GemmWorkload::bind(const Variant& variant,
                                          std::shared_ptr<const Kernel> kernel, int ctas_per_sm) {
  const auto& chosen = variant.as<GemmVariant>();
  return std::make_unique<GemmTrial>(std::move(kernel), random_.problem(), chosen,
                                     worker_count(chosen, sm_count_, ctas_per_sm), random_, exact_,
                                     stream_);
}

std::unique_ptr<Workload> GemmWorkload::copy() {
  return std::unique_ptr<Workload>(
      new GemmWorkload(random_.problem(), kernels_, stream_, sm_count_, seed_, ExpectedC::absent));
}

}  // namespace swr
