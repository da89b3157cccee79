// SPDX-License-Identifier: MIT
#include "runtime/loaded_kernels.h"

#include "core/operation.h"
#include "driver/cuda_driver.h"
#include "driver/devices.h"
#include <swr/error.h>
#include <swr/kernel.h>

#include <cstdint>
#include <utility>

namespace swr {

CUfunction LoadedFixedKernels::function(const char* file, const char* entry) {
  const std::lock_guard lock(mutex_);
  auto known = kernels_.find(entry);
  if (known == kernels_.end()) {
    const CompiledKernel compiled = source_.compile_fixed(file, entry, sm_arch_);
    const RelaxedCapture relaxed(cuda_driver().launch_calls);
    known = kernels_.emplace(entry, Kernel(compiled.cubin, entry)).first;
  }
  return known->second.handle();
}

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

LoadedKernels::LoadedKernels(CUcontext context, KernelSource& source)
    : context_(context),
      device_(device_of_current_context()),
      fixed_kernels_(std::make_unique<LoadedFixedKernels>(source, device_.sm_arch)) {}

LoadedKernels::~LoadedKernels() {
  const CudaDriver& driver = cuda_driver();
  CUcontext former = nullptr;
  driver.context_get_current.result_of(&former);
  driver.context_set_current.result_of(context_);
  kernels_.clear();
  fixed_kernels_.reset();
  tile_counters_.reset();
  split_memory_.reset();
  driver.context_set_current.result_of(former);
}

std::shared_ptr<const ReadyKernel> LoadedKernels::find(const ProblemKey& problem,
                                                       unsigned long long version) const {
  if (version != version_) {
    return nullptr;
  }
  const auto found = ready_.find(problem);
  return found == ready_.end() ? nullptr : found->second;
}

void LoadedKernels::remember(const ProblemKey& problem, unsigned long long version,
                             std::shared_ptr<const ReadyKernel> ready) {
  // A server whose lengths differ from call to call must not grow without end.
  constexpr std::size_t kMostChoices = 1 << 16;
  if (version != version_ || ready_.size() >= kMostChoices) {
    ready_.clear();
    version_ = version;
  }
  ready_.insert_or_assign(problem, std::move(ready));
}

ReadyKernel LoadedKernels::load(const Problem& problem, const Answer& answer,
                                const CompiledKernel& kernel) {
  const Occupancy resident = occupancy(kernel.resources, problem, answer.variant, device_);
  if (resident.ctas_per_sm < 1) {
    throw Error(ErrorCode::invalid_argument, "no CTA of " + to_key(answer.variant) +
                                                 " fits an SM of " + device_.name +
                                                 ", limited by " + resident.limited_by);
  }
  const RelaxedCapture relaxed(cuda_driver().launch_calls);
  auto known = kernels_.find(kernel.cubin_digest);
  if (known == kernels_.end()) {
    known = kernels_.emplace(kernel.cubin_digest, LoadedKernel{Kernel(kernel), {}}).first;
  }
  const Kernel& loaded = known->second.kernel;
  const ServingTools tools{device_, *tile_counters_, *split_memory_, *fixed_kernels_,
                           loaded.handles()};
  const OperationServing* const serving = problem.operation().serving();
  if (serving == nullptr) {
    throw Error(ErrorCode::invalid_argument,
                "programs cannot launch " + to_string(problem) +
                    " through the runtime; export its kernels with swr-tune export");
  }
  auto launch = serving->make_ready(problem, answer.variant, resident.ctas_per_sm, tools);
  std::vector<int> wanted = launch->smem_bytes_by_entry();
  if (wanted.empty()) {
    wanted.assign(loaded.handles().size(), smem_bytes(problem, answer.variant));
  }
  known->second.allow(wanted);
  return {.functions = loaded.handles(),
          .overlap = overlap_where(kernel.may_overlap),
          .launch = std::move(launch),
          .answer = answer};
}

/// Never less than before: other threads may be launching with that.
void LoadedKernels::LoadedKernel::allow(std::span<const int> wanted_bytes) {
  allowed_bytes.resize(wanted_bytes.size(), -1);
  for (std::size_t entry = 0; entry < wanted_bytes.size(); ++entry) {
    if (wanted_bytes[entry] > allowed_bytes[entry]) {
      kernel.allow_dynamic_smem(wanted_bytes[entry], entry);
      allowed_bytes[entry] = wanted_bytes[entry];
    }
  }
}

}  // namespace swr
