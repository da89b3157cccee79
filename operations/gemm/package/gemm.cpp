// SPDX-License-Identifier: MIT
#include "operations/gemm/package/gemm.h"

#include "driver/split_memory.h"
#include "export/package/loaded_kernels.h"
#include "operations/gemm/gemm_launch.h"
#include "operations/gemm/package/gemm_kernels.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <variant>

namespace swr_package {
namespace {

void require_sizes(const GemmProblem& problem) {
  constexpr int kLongest = 1 << 24;
  for (const int size : {problem.batch, problem.m, problem.n, problem.k}) {
    require_argument(size >= 1 && size <= kLongest,
                     "m, n, k and batch must be 1 to 16777216, not " + text(size));
  }
}

int alignment_bytes(const GemmCall& call, int output_bytes) {
  const GemmParams& p = call.params;
  Alignment alignment;
  for (const void* pointer : {p.a, p.b, static_cast<const void*>(p.c)}) {
    alignment.add_pointer(pointer);
  }
  if (call.extras.addend != nullptr) {
    alignment.add_pointer(call.extras.addend);
  }
  const auto add = [&](const MatrixStrides& strides, int items, int rows, int element_bytes) {
    alignment.add_stride(strides.batch, items, element_bytes);
    alignment.add_stride(strides.row, rows, element_bytes);
  };
  const int input_bytes = swr::element_bytes(call.dtype);
  const int matrices = swr::has_matrix_per_item(call.grouping.form) ? p.batch : 1;
  add(p.a_strides, matrices, call.layout == GemmLayout::tn ? p.k : p.m, input_bytes);
  add(p.b_strides, p.batch, call.layout == GemmLayout::nt ? p.n : p.k, input_bytes);
  add(p.c_strides, matrices, p.m, output_bytes);
  const int bytes = alignment.bytes();
  const int least = std::max(swr::is_fp8(call.dtype) ? 4 : input_bytes, output_bytes);
  require_argument(
      bytes >= least,
      "the addresses and strides of the matrices must be multiples of " + text(least) + " bytes");
  return bytes;
}

GemmProblem problem_of(const GemmCall& call) {
  const GemmParams& p = call.params;
  GemmProblem problem;
  problem.batch = p.batch;
  problem.m = swr::problem_rows(p, call.grouping);
  problem.n = p.n;
  problem.k = p.k;
  problem.dtype = call.dtype;
  problem.output = call.output;
  problem.layout = call.layout;
  problem.reads_c = p.beta != 0.0F;
  problem.scaling = call.scaling;
  problem.accuracy = call.accuracy;
  problem.has_bias = call.extras.bias != nullptr;
  problem.activation = call.activation;
  problem.gated = call.gated;
  problem.output_scaling = call.output_scaling;
  problem.groups = call.grouping.form;
  problem.skewed = call.grouping.skewed;
  require_sizes(problem);
  require_argument(problem.groups == GemmGroups::none ||
                       (p.groups != nullptr && problem.batch <= swr::kMostGroups),
                   "a grouped product takes numbers on the device and at most " +
                       text(swr::kMostGroups) + " items");
  problem.alignment_bytes = alignment_bytes(call, problem.output_bytes());
  return problem;
}

/// What is ready to be launched in one context.
struct Ready {
  const GemmKernel* kernel = nullptr;
  const Device* device = nullptr;
  CUfunction function = nullptr;
  int workers = 1;
  swr::SplitMemory* split_memory = nullptr;
};

/// What splits of k and copies of rows need; nothing where a launch has neither.
struct MemoryNeeds {
  std::size_t partials_bytes = 0;
  std::size_t arrival_words = 0;

  /// In a workspace the words follow the rest.
  std::size_t arrivals_at() const { return (partials_bytes + 15) / 16 * 16; }
  std::size_t arrival_bytes() const { return arrival_words * sizeof(unsigned); }
  std::size_t bytes() const { return arrivals_at() + arrival_bytes(); }
};

MemoryNeeds memory_needs(const GemmKernel& kernel, const GemmParams& params) {
  return std::visit(
      [&](const auto& config) {
        return MemoryNeeds{static_cast<std::size_t>(swr::workspace_bytes(config, params)),
                           static_cast<std::size_t>(config.arrival_words(params))};
      },
      kernel.config);
}

void require_fitting(const Workspace& workspace, std::size_t bytes) {
  require_argument(workspace.memory != nullptr && workspace.bytes >= bytes &&
                       reinterpret_cast<std::uintptr_t>(workspace.memory) % 16 == 0,
                   "the workspace must be " + text(static_cast<long long>(bytes)) +
                       " bytes at a multiple of 16, not " +
                       text(static_cast<long long>(workspace.bytes)));
}

}  // namespace

struct Gemm::Impl {
  using Loaded = LoadedKernels<GemmProblem, Ready, swr::SplitMemory>;

  Ready make_ready(const GemmProblem& problem, Loaded::Context& context) const {
    const GemmKernel& kernel =
        choose(std::span(kGemmKernels, kGemmKernelCount), problem, context.device);
    Ready ready{&kernel, &context.device, nullptr, kernel.workers, context.memory.get()};
    std::visit(
        [&](const auto& config) {
          ready.function = loaded.load(context, kernel.embedded, [&](CUfunction function) {
            return swr::prepare_gemm(driver.launch, function, config);
          });
          if (kernel.workers == 0) {
            ready.workers = driver.resident_workers(context.device, ready.function,
                                                    config.threads(), config.smem_bytes());
          }
        },
        kernel.config);
    return ready;
  }

  Ready get(const GemmProblem& problem) {
    return loaded.get(problem,
                      [&](Loaded::Context& context) { return make_ready(problem, context); });
  }

  void launch(const Ready& ready, const GemmParams& params, const swr::GemmExtras& extras,
              CUstream stream) const {
    std::visit(
        [&](const auto& config) {
          swr::GemmTensorMaps maps{};
          driver.require(swr::encode_gemm_maps(driver.launch, config, params, maps),
                         "cuTensorMapEncodeTiled");
          driver.require(
              swr::launch_gemm(driver.launch, ready.function, config, params, extras, maps,
                               ready.workers,
                               swr::overlap_where(ready.kernel->embedded.may_overlap), stream),
              "cuLaunchKernelEx");
        },
        ready.kernel->config);
  }

  Driver driver;
  Loaded loaded{driver};
};

Gemm::Gemm() : impl_(std::make_unique<Impl>()) {}
Gemm::~Gemm() = default;

void Gemm::run(const GemmCall& call, CUstream_st* stream) {
  const Ready ready = impl_->get(problem_of(call));
  GemmParams params = ready.kernel->chosen(call.params);
  const MemoryNeeds needs = memory_needs(*ready.kernel, params);
  if (needs.bytes() > 0) {
    swr::SplitMemory::Part part;
    impl_->driver.require(
        ready.split_memory->of_launch(stream, needs.partials_bytes, needs.arrival_words, part),
        "finding memory for partial sums and copied rows");
    params.partials = part.partials;
    params.arrivals = part.arrivals;
  }
  impl_->launch(ready, params, call.extras, stream);
}

void Gemm::run(const GemmCall& call, const Workspace& workspace, CUstream_st* stream) {
  const Ready ready = impl_->get(problem_of(call));
  GemmParams params = ready.kernel->chosen(call.params);
  const MemoryNeeds needs = memory_needs(*ready.kernel, params);
  if (needs.bytes() > 0) {
    require_fitting(workspace, needs.bytes());
    const auto arrivals = reinterpret_cast<CUdeviceptr>(workspace.memory) + needs.arrivals_at();
    params.partials = static_cast<float*>(workspace.memory);
    params.arrivals = reinterpret_cast<unsigned*>(arrivals);
    impl_->driver.require(
        impl_->driver.launch.memset_async(arrivals, 0, needs.arrival_bytes(), stream),
        "cuMemsetD8Async");
  }
  impl_->launch(ready, params, call.extras, stream);
}

std::size_t Gemm::workspace_bytes(const GemmCall& call) {
  const Ready ready = impl_->get(problem_of(call));
  return memory_needs(*ready.kernel, ready.kernel->chosen(call.params)).bytes();
}

Choice Gemm::prepare(const GemmCall& call) {
  const GemmProblem problem = problem_of(call);
  const Ready ready = impl_->get(problem);
  return choice_of(*ready.kernel, problem, *ready.device);
}

}  // namespace swr_package
