// SPDX-License-Identifier: MIT
#include "runtime/loaded_kernels.h"

#include "core/operation.h"
#include "core/reject.h"
#include "core/sha256.h"
#include "driver/cuda_driver.h"
#include "driver/devices.h"
#include <swr/error.h>

#include <algorithm>
#include <array>
#include <cstddef>
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
    reject("no CTA of " + to_key(answer.variant) + " fits an SM of " + device_.name +
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
    reject("programs cannot launch " + to_string(problem) +
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

namespace {

constexpr std::size_t kMostDimensions = 5;  ///< Of a tensor map.

/// All that a map depends on.
struct MapArguments {
  CUcontext context = nullptr;
  void* address = nullptr;
  std::array<cuuint64_t, kMostDimensions> sizes{};
  std::array<cuuint64_t, kMostDimensions - 1> strides_bytes{};
  std::array<cuuint32_t, kMostDimensions> box_sizes{};
  std::array<cuuint32_t, kMostDimensions> element_strides{};
  cuuint32_t rank = 0;
  CUtensorMapDataType type{};
  CUtensorMapInterleave interleave{};
  CUtensorMapSwizzle swizzle{};
  CUtensorMapL2promotion promotion{};
  CUtensorMapFloatOOBfill fill{};

  bool operator==(const MapArguments&) const = default;
};

struct RecentMap {
  MapArguments arguments;  ///< Rank 0: no map is here.
  CUtensorMap map{};
};

constexpr std::size_t kMaps = 512;

thread_local CUcontext context_of_maps = nullptr;
thread_local std::array<RecentMap, kMaps> recent_maps;

/// The map made last for each kind of tensor; nullptr where there was none.
thread_local std::array<const RecentMap*, 64> recent_kinds{};

/// The same memory is seen with other lengths and boxes; tensors of a kind differ by address.
std::uint64_t kind_hash(const MapArguments& arguments) {
  std::uint64_t hash = arguments.box_sizes[1];
  for (const std::uint64_t size : {arguments.sizes[0], arguments.sizes[1], arguments.sizes[2]}) {
    hash = mixed(hash, size);
  }
  return hash;
}

bool differ_by_address_alone(MapArguments a, const MapArguments& b) {
  a.address = b.address;
  return a == b;
}

CUresult encode(const MapArguments& arguments, CUtensorMap& map) {
  return cuda_driver().launch_calls.tensor_map_encode_tiled(
      &map, arguments.type, arguments.rank, arguments.address, arguments.sizes.data(),
      arguments.strides_bytes.data(), arguments.box_sizes.data(), arguments.element_strides.data(),
      arguments.interleave, arguments.swizzle, arguments.promotion, arguments.fill);
}

/// The map of a tensor from that of one of its kind, without telling the driver shape and strides.
CUresult replace_address(const RecentMap& alike, const MapArguments& arguments, CUtensorMap& map) {
  // As old as cuTensorMapEncodeTiled, so that every driver that runs such kernels has it.
  static const DriverCall<decltype(cuTensorMapReplaceAddress)> replace{cuda_driver().library,
                                                                       "cuTensorMapReplaceAddress"};
  map = alike.map;
  return replace.result_of(&map, arguments.address);
}

/// Where the driver does not replace an address it encodes, or says why not.
CUresult make_map(const RecentMap* alike, const MapArguments& arguments, CUtensorMap& map) {
  const bool is_made = alike != nullptr && differ_by_address_alone(alike->arguments, arguments) &&
                       replace_address(*alike, arguments, map) == CUDA_SUCCESS;
  return is_made ? CUDA_SUCCESS : encode(arguments, map);
}

}  // namespace

void use_recent_tensor_maps_of(CUcontext context) { context_of_maps = context; }

CUresult encode_recent_tensor_map(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                  void* address, const cuuint64_t* sizes,
                                  const cuuint64_t* strides_bytes, const cuuint32_t* box_sizes,
                                  const cuuint32_t* element_strides,
                                  CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                  CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  if (rank < 1 || rank > kMostDimensions) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  MapArguments arguments{.context = context_of_maps,
                         .address = address,
                         .rank = rank,
                         .type = type,
                         .interleave = interleave,
                         .swizzle = swizzle,
                         .promotion = promotion,
                         .fill = fill};
  std::copy_n(sizes, rank, arguments.sizes.begin());
  std::copy_n(strides_bytes, rank - 1, arguments.strides_bytes.begin());
  std::copy_n(box_sizes, rank, arguments.box_sizes.begin());
  std::copy_n(element_strides, rank, arguments.element_strides.begin());
  const std::uint64_t kind = kind_hash(arguments);
  RecentMap& recent =
      recent_maps[mixed(kind, reinterpret_cast<std::uintptr_t>(address)) % recent_maps.size()];
  if (recent.arguments != arguments) {
    const RecentMap*& alike = recent_kinds[kind % recent_kinds.size()];
    CUtensorMap made;
    const CUresult result = make_map(alike, arguments, made);
    if (result != CUDA_SUCCESS) {
      return result;
    }
    recent = {arguments, made};
    alike = &recent;
  }
  *map = recent.map;
  return CUDA_SUCCESS;
}

}  // namespace swr
