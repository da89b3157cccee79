// SPDX-License-Identifier: MIT
#include "tuner/package/attention.h"

#include "tuner/driver/attention_launch.h"
#include "tuner/driver/split_memory.h"
#include "tuner/driver/tile_counters.h"
#include "tuner/package/kernels.h"
#include "tuner/package/sha256.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <dlfcn.h>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

namespace swr_package {
namespace {

std::string text(long long value) { return std::to_string(value); }

/// The driver, opened at run time: a machine without one can still load this library.
class Driver {
 public:
  Driver() : library_(dlopen("libcuda.so.1", RTLD_NOW)) {
    if (library_ == nullptr) {
      throw Error(ErrorCode::no_driver, "libcuda.so.1 cannot be opened; install NVIDIA's driver");
    }
    launch = swr::find_launch_calls([this](const char* name) { return find(name); });
    bind(context_get_current, "cuCtxGetCurrent");
    bind(context_set_current, "cuCtxSetCurrent");
    bind(context_get_device, "cuCtxGetDevice");
    bind(device_get_attribute, "cuDeviceGetAttribute");
    bind(device_get_name, "cuDeviceGetName");
    bind(module_load_data, "cuModuleLoadData");
    bind(module_unload, "cuModuleUnload");
    bind(module_get_function, "cuModuleGetFunction");
    bind(resident_ctas, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
    bind(get_error_name, "cuGetErrorName");
  }

  /// The library stays open: the driver runs threads of its own.
  void require(CUresult result, const char* call) const {
    if (result == CUDA_SUCCESS) {
      return;
    }
    const char* name = nullptr;
    get_error_name(result, &name);
    throw Error(ErrorCode::driver_failed, std::string(call) + " failed with " +
                                              (name == nullptr ? "an unknown error" : name));
  }

  swr::LaunchCalls launch;
  decltype(cuCtxGetCurrent)* context_get_current = nullptr;
  decltype(cuCtxSetCurrent)* context_set_current = nullptr;
  decltype(cuCtxGetDevice)* context_get_device = nullptr;
  decltype(cuDeviceGetAttribute)* device_get_attribute = nullptr;
  decltype(cuDeviceGetName)* device_get_name = nullptr;
  decltype(cuModuleLoadData)* module_load_data = nullptr;
  decltype(cuModuleUnload)* module_unload = nullptr;
  decltype(cuModuleGetFunction)* module_get_function = nullptr;
  decltype(cuOccupancyMaxActiveBlocksPerMultiprocessor)* resident_ctas = nullptr;
  decltype(cuGetErrorName)* get_error_name = nullptr;

 private:
  void* find(const char* name) const {
    void* const symbol = dlsym(library_, name);
    if (symbol == nullptr) {
      throw Error(ErrorCode::no_driver,
                  std::string("the CUDA driver has no ") + name + "; install a newer one");
    }
    return symbol;
  }

  template <typename Function>
  void bind(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(find(name));
  }

  void* library_;
};

struct Device {
  std::string name;
  swr::DevicePoint point;
  int smem_per_cta_bytes = 0;
};

Device current_device(const Driver& driver) {
  CUdevice device = 0;
  driver.require(driver.context_get_device(&device), "cuCtxGetDevice");
  const auto attribute = [&](CUdevice_attribute name) {
    int value = 0;
    driver.require(driver.device_get_attribute(&value, name, device), "cuDeviceGetAttribute");
    return value;
  };
  std::array<char, 256> name{};
  driver.require(driver.device_get_name(name.data(), static_cast<int>(name.size()), device),
                 "cuDeviceGetName");
  Device result;
  result.name = name.data();
  result.smem_per_cta_bytes = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  result.point.sm_arch = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) * 10 +
                         attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  result.point.sm_count = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  result.point.l2_bytes = attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  // Two transfers per memory clock (kHz) and bus line.
  result.point.dram_gb_per_s = 2e3 * attribute(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) *
                               (attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) / 8.0) / 1e9;
  // The driver names slices after their profile.
  result.point.mig = result.name.find(" MIG ") != std::string::npos;
  return result;
}

void require_argument(bool holds, const std::string& message) {
  if (!holds) {
    throw Error(ErrorCode::invalid_argument, message);
  }
}

void require_sizes(const Problem& problem) {
  for (const int size :
       {problem.batch, problem.heads_q, problem.heads_kv, problem.seq_q, problem.seq_kv}) {
    require_argument(size >= 1, "batch, heads and lengths must be at least 1, not " + text(size));
  }
  require_argument(problem.heads_q % problem.heads_kv == 0,
                   "heads_q must be a multiple of heads_kv");
  constexpr long long kMostHeads = 1 << 20;
  constexpr long long kMostRows = 1LL << 30;
  constexpr int kLongest = 1 << 24;
  const long long heads = static_cast<long long>(problem.batch) * problem.heads_q;
  require_argument(heads <= kMostHeads && heads * problem.seq_q <= kMostRows &&
                       problem.seq_q <= kLongest && problem.seq_kv <= kLongest,
                   "the problem is too large");
}

/// The bits below which every address of an access is aligned.
int alignment_bytes(const AttentionParams& p) {
  constexpr std::uintptr_t kLargest = 16;
  constexpr std::uintptr_t kElementBytes = 2;
  std::uintptr_t bits = kLargest;
  for (const void* pointer : {p.q, p.k, p.v, static_cast<const void*>(p.o)}) {
    require_argument(pointer != nullptr, "a tensor has no memory");
    bits |= reinterpret_cast<std::uintptr_t>(pointer);
  }
  const auto add = [&](const TensorStrides& strides, int heads, int seq) {
    // A stride that no step takes does not matter.
    bits |= kElementBytes * static_cast<std::uintptr_t>((p.batch > 1 ? strides.batch : 0) |
                                                        (heads > 1 ? strides.head : 0) |
                                                        (seq > 1 ? strides.seq : 0));
  };
  add(p.q_strides, p.heads_q, p.seq_q);
  add(p.k_strides, p.heads_kv, p.seq_kv);
  add(p.v_strides, p.heads_kv, p.seq_kv);
  add(p.o_strides, p.heads_q, p.seq_q);
  return static_cast<int>(bits & ~(bits - 1));
}

Problem problem_of(const Call& call) {
  const AttentionParams& p = call.params;
  Problem problem;
  problem.batch = p.batch;
  problem.heads_q = p.heads_q;
  problem.heads_kv = p.heads_kv;
  problem.seq_q = p.seq_q;
  problem.seq_kv = p.seq_kv;
  problem.head_dim = call.head_dim;
  problem.dtype = call.dtype;
  problem.causal = call.causal;
  require_sizes(problem);
  problem.alignment_bytes = alignment_bytes(p);
  return problem;
}

auto kind(const Problem& p) { return std::tie(p.head_dim, p.dtype, p.causal, p.alignment_bytes); }

auto sizes(const Problem& p) { return std::tie(p.batch, p.heads_q, p.heads_kv, p.seq_q, p.seq_kv); }

auto key(const Problem& p) { return std::tuple_cat(sizes(p), kind(p)); }

swr::ShapePoint point(const Problem& p) {
  return swr::shape_point(p.batch, p.heads_q, p.heads_kv, p.seq_q, p.seq_kv);
}

/// Every split has a tile of K and V, and what splits leave is as little as swr allows.
bool splits_fit(const EmbeddedKernel& kernel, const Problem& problem) {
  if (kernel.plan.kv_splits == 1) {
    return true;
  }
  swr::AttentionParams params;
  params.batch = problem.batch;
  params.heads_q = problem.heads_q;
  params.heads_kv = problem.heads_kv;
  params.seq_q = problem.seq_q;
  return kernel.plan.kv_splits <= swr::ceil_div(problem.seq_kv, kernel.plan.tile_n) &&
         swr::launch_geometry(kernel.plan, params).partials_bytes <= swr::kMostPartialsBytes;
}

bool fits(const EmbeddedKernel& kernel, const Problem& problem, const Device& device) {
  return kind(kernel.problem) == kind(problem) && kernel.device.sm_arch == device.point.sm_arch &&
         kernel.plan.dynamic_smem_bytes <= device.smem_per_cta_bytes &&
         swr::is_distinct_mapping(
             kernel.plan.swizzle, kernel.plan.section_heads,
             problem.batch * (kernel.plan.pack_gqa ? problem.heads_kv : problem.heads_q)) &&
         (!kernel.plan.pack_gqa || problem.heads_q > problem.heads_kv) &&
         splits_fit(kernel, problem);
}

/// Smaller is better: this device's kernels first, measured before predicted, then the nearest
/// shape, then the most similar device.
auto rank(const EmbeddedKernel& kernel, const Problem& problem, const Device& device) {
  const bool same = swr::is_same_device(kernel.device, device.point);
  return std::tuple(
      !same, !kernel.measured, swr::squared_distance(point(kernel.problem), point(problem)),
      same ? 0.0 : swr::device_distance(kernel.device, device.point), sizes(kernel.problem));
}

std::string describe(const Problem& problem) {
  return "batch " + text(problem.batch) + ", heads " + text(problem.heads_q) + "/" +
         text(problem.heads_kv) + ", lengths " + text(problem.seq_q) + "/" + text(problem.seq_kv) +
         ", head_dim " + text(problem.head_dim) +
         (problem.dtype == DType::fp16 ? ", fp16" : ", bf16") + (problem.causal ? ", causal" : "") +
         ", alignment " + text(problem.alignment_bytes);
}

const EmbeddedKernel& choose(const Problem& problem, const Device& device) {
  const EmbeddedKernel* best = nullptr;
  for (std::size_t i = 0; i < kKernelCount; ++i) {
    if (fits(kKernels[i], problem, device) &&
        (best == nullptr || rank(kKernels[i], problem, device) < rank(*best, problem, device))) {
      best = &kKernels[i];
    }
  }
  if (best == nullptr) {
    throw Error(ErrorCode::no_kernel, "no kernel of this package fits " + describe(problem) +
                                          " on " + device.name + " (sm_" +
                                          text(device.point.sm_arch) +
                                          "); tune this kind of problem there and export again");
  }
  return *best;
}

struct Loaded {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
};

/// What is ready to be launched in one context.
struct Ready {
  const EmbeddedKernel* kernel = nullptr;
  CUfunction function = nullptr;
  swr::LaunchPlan plan;
  /// Where the kernel's tiles are drawn; nullptr when it draws none.
  swr::TileCounters* tile_counters = nullptr;
  /// Where splits of K and V meet; nullptr when there is one.
  swr::SplitMemory* split_memory = nullptr;
};

using OwnedKey = std::tuple<int, int, int, int, int, int, DType, bool, int>;

struct Context {
  Device device;
  std::map<std::string, Loaded> modules;  ///< By digest.
  std::map<OwnedKey, Ready> ready;
  std::unique_ptr<swr::TileCounters> tile_counters;
  std::unique_ptr<swr::SplitMemory> split_memory;
};

}  // namespace

struct Attention::Impl {
  ~Impl() {
    CUcontext former = nullptr;
    driver.context_get_current(&former);
    for (auto& [handle, context] : contexts) {
      driver.context_set_current(handle);
      for (auto& [digest, loaded] : context.modules) {
        driver.module_unload(loaded.module);
      }
      context.tile_counters.reset();
      context.split_memory.reset();
    }
    driver.context_set_current(former);
  }

  Loaded load(const EmbeddedKernel& kernel) const {
    if (swr::Sha256::hex(kernel.cubin, kernel.cubin_bytes) != kernel.sha256) {
      throw Error(ErrorCode::damaged, std::string("the kernel ") + kernel.name +
                                          " is not what was exported; build the package again");
    }
    const swr::RelaxedCapture relaxed(driver.launch);
    Loaded loaded;
    driver.require(driver.module_load_data(&loaded.module, kernel.cubin), "cuModuleLoadData");
    const CUresult found =
        driver.module_get_function(&loaded.function, loaded.module, kernel.entry);
    const CUresult prepared =
        found == CUDA_SUCCESS ? swr::prepare_attention(driver.launch, loaded.function, kernel.plan)
                              : found;
    if (prepared != CUDA_SUCCESS) {
      driver.module_unload(loaded.module);
    }
    driver.require(found, "cuModuleGetFunction");
    driver.require(prepared, "cuFuncSetAttribute");
    return loaded;
  }

  Ready make_ready(const Problem& problem, Context& context) const {
    const EmbeddedKernel& kernel = choose(problem, context.device);
    auto known = context.modules.find(kernel.sha256);
    if (known == context.modules.end()) {
      known = context.modules.emplace(kernel.sha256, load(kernel)).first;
    }
    Ready ready{&kernel, known->second.function, kernel.plan, nullptr, nullptr};
    if (kernel.plan.kv_splits > 1) {
      ready.split_memory = context.split_memory.get();
    }
    if (kernel.plan.persistence == swr::Persistence::dynamic) {
      driver.require(context.tile_counters->reserve(), "allocating tile counters");
      ready.tile_counters = context.tile_counters.get();
    }
    if (kernel.fills_device) {
      int resident = 0;
      driver.require(driver.resident_ctas(&resident, ready.function, ready.plan.threads,
                                          static_cast<std::size_t>(ready.plan.dynamic_smem_bytes)),
                     "cuOccupancyMaxActiveBlocksPerMultiprocessor");
      ready.plan.workers = context.device.point.sm_count * (resident > 0 ? resident : 1);
    }
    return ready;
  }

  Context& current_context() {
    CUcontext handle = nullptr;
    driver.require(driver.context_get_current(&handle), "cuCtxGetCurrent");
    if (handle == nullptr) {
      throw Error(ErrorCode::no_driver,
                  "no CUDA context is current on this thread; make one current first");
    }
    const auto known = contexts.find(handle);
    if (known != contexts.end()) {
      return known->second;
    }
    return contexts
        .emplace(handle, Context{current_device(driver),
                                 {},
                                 {},
                                 std::make_unique<swr::TileCounters>(driver.launch),
                                 std::make_unique<swr::SplitMemory>(driver.launch)})
        .first->second;
  }

  Ready get(const Problem& problem) {
    // Differing lengths must not grow the table without end.
    constexpr std::size_t kMostChoices = 1 << 16;
    const std::lock_guard<std::mutex> lock(mutex);
    Context& context = current_context();
    const auto known = context.ready.find(key(problem));
    if (known != context.ready.end()) {
      return known->second;
    }
    if (context.ready.size() >= kMostChoices) {
      context.ready.clear();
    }
    return context.ready.emplace(key(problem), make_ready(problem, context)).first->second;
  }

  Choice describe_choice(const Problem& problem, const Ready& ready) {
    const std::lock_guard<std::mutex> lock(mutex);
    return {ready.kernel->name,
            std::sqrt(swr::squared_distance(point(ready.kernel->problem), point(problem))),
            swr::is_same_device(ready.kernel->device, current_context().device.point),
            ready.kernel->measured};
  }

  Driver driver;
  std::mutex mutex;
  std::map<CUcontext, Context> contexts;
};

Attention::Attention() : impl_(std::make_unique<Impl>()) {}
Attention::~Attention() = default;

void Attention::run(const Call& call, CUstream_st* stream) {
  const Ready ready = impl_->get(problem_of(call));
  AttentionParams params = call.params;
  if (params.scale_log2 == 0.0F) {
    constexpr float kLog2E = 1.44269504F;
    params.scale_log2 = kLog2E / std::sqrt(static_cast<float>(call.head_dim));
  }
  if (ready.tile_counters != nullptr && params.tile_counter == nullptr) {
    impl_->driver.require(ready.tile_counters->of_launch(stream, params.tile_counter),
                          "finding a tile counter");
  }
  if (ready.split_memory != nullptr) {
    impl_->driver.require(swr::find_split_memory(*ready.split_memory, ready.plan, stream, params),
                          "finding memory for the results of splits");
  }
  impl_->driver.require(
      swr::launch_attention(impl_->driver.launch, ready.function, ready.plan, params, stream),
      "cuLaunchKernel");
}

Choice Attention::prepare(const Call& call) {
  const Problem problem = problem_of(call);
  return impl_->describe_choice(problem, impl_->get(problem));
}

}  // namespace swr_package
