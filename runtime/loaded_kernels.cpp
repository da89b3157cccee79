// SPDX-License-Identifier: MIT
#include "runtime/loaded_kernels.h"

#include "core/launch.h"
#include "tuner/driver/devices.h"
#include <swr/error.h>
#include <swr/kernel.h>

#include <cstdint>
#include <utility>

namespace swr {
namespace {

DeviceInfo device_of_current_context() {
  const CudaDriver& driver = cuda_driver();
  CUdevice current = 0;
  driver.context_get_device(&current);
  const std::vector<DeviceInfo> devices = list_devices();
  for (std::size_t ordinal = 0; ordinal < devices.size(); ++ordinal) {
    CUdevice device = 0;
    driver.device_get(&device, static_cast<int>(ordinal));
    if (device == current) {
      return devices[ordinal];
    }
  }
  throw Error(ErrorCode::driver_failed, "the current context is of a device that is not visible");
}

}  // namespace

std::size_t ProblemHash::operator()(const AttentionProblem& problem) const {
  constexpr std::uint64_t kGoldenRatio = 0x9e3779b97f4a7c15ULL;
  std::uint64_t hash =
      static_cast<std::uint64_t>(problem.dtype) << 1U | static_cast<std::uint64_t>(problem.causal);
  for (const int size : {problem.batch, problem.heads_q, problem.heads_kv, problem.seq_q,
                         problem.seq_kv, problem.head_dim, problem.alignment_bytes}) {
    hash = (hash ^ static_cast<std::uint64_t>(size)) * kGoldenRatio;
    hash ^= hash >> 29U;
  }
  return hash;
}

LoadedKernels::LoadedKernels(CUcontext context)
    : context_(context), device_(device_of_current_context()) {}

LoadedKernels::~LoadedKernels() {
  const CudaDriver& driver = cuda_driver();
  CUcontext former = nullptr;
  driver.context_get_current.result_of(&former);
  driver.context_set_current.result_of(context_);
  kernels_.clear();
  tile_counters_.reset();
  driver.context_set_current.result_of(former);
}

const ReadyKernel* LoadedKernels::find(const AttentionProblem& problem,
                                       unsigned long long version) const {
  if (version != version_) {
    return nullptr;
  }
  const auto found = ready_.find(problem);
  return found == ready_.end() ? nullptr : &found->second;
}

void LoadedKernels::remember(const AttentionProblem& problem, unsigned long long version,
                             const ReadyKernel& ready) {
  // A server whose lengths differ from call to call must not grow without end.
  constexpr std::size_t kMostChoices = 1 << 16;
  if (version != version_ || ready_.size() >= kMostChoices) {
    ready_.clear();
    version_ = version;
  }
  ready_.insert_or_assign(problem, ready);
}

ReadyKernel LoadedKernels::load(const AttentionProblem& problem, const Answer& answer,
                                const CompiledKernel& kernel) {
  const Occupancy resident = occupancy(kernel.resources, problem, answer.variant, device_);
  if (resident.ctas_per_sm < 1) {
    throw Error(ErrorCode::invalid_argument, "no CTA of " + to_key(answer.variant) +
                                                 " fits an SM of " + device_.name +
                                                 ", limited by " + resident.limited_by);
  }
  const LaunchPlan plan =
      launch_plan(problem, answer.variant, device_.sm_count, resident.ctas_per_sm);
  auto known = kernels_.find(kernel.cubin_digest);
  if (known == kernels_.end()) {
    const RelaxedCapture relaxed(cuda_driver().launch_calls);
    Kernel loaded(kernel.cubin, kernel.entry);
    // Once: other threads may be launching it later on, and no launch of a cubin needs another.
    require_success(prepare_attention(cuda_driver().launch_calls, loaded.handle(), plan),
                    "cuFuncSetAttribute");
    known = kernels_.emplace(kernel.cubin_digest, std::move(loaded)).first;
  }
  const bool draws_tiles = plan.persistence == Persistence::dynamic;
  if (draws_tiles) {
    require_success(tile_counters_->reserve(), "allocating tile counters");
  }
  return {known->second.handle(), plan, answer, draws_tiles ? tile_counters_.get() : nullptr};
}

}  // namespace swr
