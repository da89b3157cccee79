// SPDX-License-Identifier: MIT
#include "runtime/kernel_source.h"
#include "runtime/loaded_kernels.h"
#include "tuner/driver/gemm_launch.h"
#include <swr/constraints.h>
#include <swr/error.h>
#include <swr/runtime.h>

#include <cmath>
#include <mutex>
#include <numbers>
#include <shared_mutex>
#include <vector>

namespace swr {
namespace {

/// The device on which the memory lies gets its primary context, current on this thread.
CUcontext adopt_context_of(const void* memory) {
  const CudaDriver& driver = cuda_driver();
  int ordinal = 0;
  driver.pointer_get_attribute(static_cast<void*>(&ordinal), CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                               reinterpret_cast<CUdeviceptr>(memory));
  CUdevice device = 0;
  driver.device_get(&device, ordinal);
  CUcontext context = nullptr;
  // Retained for ever: whoever allocated the memory holds it as well.
  driver.primary_context_retain(&context, device);
  driver.context_set_current(context);
  return context;
}

CUcontext current_context() {
  CUcontext context = nullptr;
  cuda_driver().context_get_current(&context);
  return context;
}

/// The current context, or that of the memory where none is current.
CUcontext context_for(const void* memory) {
  const CUcontext context = current_context();
  return context == nullptr ? adopt_context_of(memory) : context;
}

template <typename Config>
void launch(const Config& config, const ReadyKernel& kernel, GemmParams params, CUstream stream) {
  const auto& ready = std::get<ReadyGemm>(kernel.launch);
  const LaunchCalls& calls = cuda_driver().launch_calls;
  if (ready.split_memory != nullptr) {
    SplitMemory::Part part;
    require_success(ready.split_memory->of_launch(
                        stream, static_cast<std::size_t>(config.partials_bytes(params)),
                        static_cast<std::size_t>(config.arrival_words(params)), part),
                    "finding memory for partial sums");
    params.partials = part.partials;
    params.arrivals = part.arrivals;
  }
  GemmTensorMaps maps;
  require_success(encode_gemm_maps(calls, config, params, maps), "cuTensorMapEncodeTiled");
  require_success(launch_gemm(calls, kernel.function, config, params, maps, ready.workers,
                              kernel.overlap, stream),
                  "cuLaunchKernelEx");
}

float usual_scale_log2(int head_dim) {
  return std::numbers::log2e_v<float> / std::sqrt(static_cast<float>(head_dim));
}

}  // namespace

struct Runtime::Impl {
  explicit Impl(const RuntimeOptions& options) : source(options), may_compile(options.may_compile) {
    if (options.database) {
      LookupOptions lookup_options = options.lookup;
      lookup_options.setting.overlay_digest = overlay_digest(options.generator);
      lookup = std::make_unique<Lookup>(*options.database, lookup_options);
    }
  }

  unsigned long long version() const { return lookup ? lookup->version() : 1; }

  LoadedKernels* loaded_in(CUcontext context) const {
    for (const auto& loaded : contexts) {
      if (loaded->context() == context) {
        return loaded.get();
      }
    }
    return nullptr;
  }

  /// What is ready, without waiting for anyone who loads.
  std::optional<ReadyKernel> find(CUcontext context, const Problem& problem) const {
    const unsigned long long now = version();
    const std::shared_lock lock(contexts_mutex);
    const LoadedKernels* const loaded = loaded_in(context);
    const ReadyKernel* const ready = loaded == nullptr ? nullptr : loaded->find(problem, now);
    return ready == nullptr ? std::nullopt : std::optional(*ready);
  }

  ReadyKernel get(CUcontext context, const Problem& problem) {
    if (auto ready = find(context, problem)) {
      return *ready;
    }
    const std::lock_guard loading(loading_mutex);
    // Another thread may have loaded it meanwhile.
    auto ready = find(context, problem);
    return ready ? *ready : load(context, problem);
  }

  /// Requires: loading_mutex, so that nobody else changes the contexts.
  ReadyKernel load(CUcontext context, const Problem& problem) {
    // Before choosing: a choice from an older state must not pass for one of a newer.
    const unsigned long long now = version();
    LoadedKernels* loaded = loaded_in(context);
    if (loaded == nullptr) {
      auto added = std::make_unique<LoadedKernels>(context);
      const std::unique_lock lock(contexts_mutex);
      loaded = contexts.emplace_back(std::move(added)).get();
    }
    const auto [choice, kernel] = choose(problem, loaded->device());
    const ReadyKernel ready = loaded->load(problem, choice.answer, kernel);
    const std::unique_lock lock(contexts_mutex);
    loaded->remember(problem, now, ready);
    return ready;
  }

  Choice best(const Problem& problem, const DeviceInfo& device) const {
    if (lookup) {
      return {lookup->best(problem, device), true};
    }
    validate(problem);
    if (const auto exported = source.best_exported(problem, device)) {
      return *exported;
    }
    Answer answer;
    answer.variant = default_variant(problem, device);
    answer.stored_problem = problem;
    return {answer, false};
  }

  struct ChosenKernel {
    Choice choice;
    CompiledKernel kernel;
  };

  ChosenKernel choose(const Problem& problem, const DeviceInfo& device) {
    const Choice choice = best(problem, device);
    if (auto kernel = source.find(problem, choice, device.sm_arch)) {
      return {choice, std::move(*kernel)};
    }
    if (may_compile) {
      return {choice, source.compile(problem, choice.answer.variant, device.sm_arch)};
    }
    return choose_exported(problem, device);
  }

  ChosenKernel choose_exported(const Problem& problem, const DeviceInfo& device) const {
    if (const auto choice = source.best_exported(problem, device)) {
      if (auto kernel = source.find(problem, *choice, device.sm_arch)) {
        return {*choice, std::move(*kernel)};
      }
    }
    throw Error(
        ErrorCode::not_compiled,
        "no kernel for " + to_string(problem) + " on " + device.name +
            " is exported or in the cache, and nothing may be compiled while serving; "
            "tune and export this kind of problem, or call prepare() with compiling allowed");
  }

  KernelSource source;
  bool may_compile;
  std::unique_ptr<Lookup> lookup;
  /// Held while a kernel is chosen, compiled and loaded.
  std::mutex loading_mutex;
  mutable std::shared_mutex contexts_mutex;
  std::vector<std::unique_ptr<LoadedKernels>> contexts;
};

Runtime::Runtime(const RuntimeOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Runtime::~Runtime() = default;

void Runtime::attention(const AttentionCall& call, CUstream_st* stream) {
  const AttentionProblem problem = problem_of(call);
  const ReadyKernel kernel = impl_->get(context_for(call.params.q), problem);
  const auto& ready = std::get<ReadyAttention>(kernel.launch);
  AttentionParams params = call.params;
  if (ready.tile_counters != nullptr && params.tile_counter == nullptr) {
    require_success(ready.tile_counters->of_launch(stream, params.tile_counter),
                    "finding a tile counter");
  }
  if (ready.split_memory != nullptr) {
    require_success(find_split_memory(*ready.split_memory, ready.plan, stream, params),
                    "finding memory for the results of splits");
  }
  if (params.scale_log2 == 0.0F) {
    params.scale_log2 = usual_scale_log2(call.head_dim);
  }
  require_success(launch_attention(cuda_driver().launch_calls, kernel.function, ready.plan, params,
                                   kernel.overlap, stream),
                  "cuLaunchKernelEx");
}

void Runtime::gemm(const GemmCall& call, CUstream_st* stream) {
  const GemmProblem problem = problem_of(call);
  const ReadyKernel kernel = impl_->get(context_for(call.params.a), problem);
  const auto& ready = std::get<ReadyGemm>(kernel.launch);
  GemmParams params = call.params;
  params.raster = ready.variant.raster;
  params.raster_group = ready.variant.raster_group;
  params.swizzle_stride = ready.variant.swizzle_stride;
  params.splits = ready.variant.splits;
  std::visit([&](const auto& config) { launch(config, kernel, params, stream); }, ready.config);
}

Answer Runtime::prepare(const Problem& problem) {
  validate(problem);
  const CUcontext context = current_context();
  if (context == nullptr) {
    throw Error(ErrorCode::invalid_argument,
                "no CUDA context is current on this thread; make one current before prepare()");
  }
  return impl_->get(context, problem).answer;
}

Answer Runtime::best(const Problem& problem, const DeviceInfo& device) const {
  return impl_->best(problem, device).answer;
}

bool Runtime::refresh() { return impl_->lookup != nullptr && impl_->lookup->refresh(); }

}  // namespace swr
