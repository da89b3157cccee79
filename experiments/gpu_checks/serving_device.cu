// SPDX-License-Identifier: MIT
// The device's side of serving_check but the kernels for unequal sequences themselves and what they
// are compared with.
#include "attention_serving/append/append_kv.cu"
#include "experiments/gpu_checks/sections.h"
#include "experiments/gpu_checks/serving_kernel_entries.h"
#include "experiments/gpu_checks/serving_kernels.h"
#include "operations/attention_serving/tensor_maps.h"

#include <cuda_runtime.h>

#include <array>
#include <mutex>
#include <string>

namespace swr::gpu {
namespace {

void check(cudaError_t error, const std::string& what) {
  if (error != cudaSuccess) {
    end_section(what + ": " + cudaGetErrorString(error));
  }
}

const cudaStream_t kStream = cudaStreamPerThread;

/// Lets the launch after it begin, sleeps longer than that takes, and writes.
__global__ void __launch_bounds__(1024) write_late(const LateArray* arrays, int count) {
  asm volatile("griddepcontrol.launch_dependents;");
  for (int i = 0; i < 100; ++i) {
    __nanosleep(1000);
  }
  for (int i = 0; i < count; ++i) {
    const auto* const source = static_cast<const char*>(arrays[i].source);
    auto* const target = static_cast<char*>(arrays[i].target);
    for (std::size_t byte = threadIdx.x; byte < arrays[i].bytes; byte += blockDim.x) {
      target[byte] = source[byte];
    }
  }
}

/// The entry of kCheckedKernels[kernel].
const void* serving_entry(std::size_t kernel) {
  using Entry = const void* (*)(std::size_t);
  constexpr Entry kEntries[kParts] = {entry_in_part<0>, entry_in_part<1>, entry_in_part<2>,
                                      entry_in_part<3>, entry_in_part<4>, entry_in_part<5>,
                                      entry_in_part<6>, entry_in_part<7>, entry_in_part<8>,
                                      entry_in_part<9>, entry_in_part<10>};
  return kEntries[kernel / kKernelsPerPart](kernel % kKernelsPerPart);
}

/// What a launch asks for and what the kernel and the GPU have.
std::string resources(std::size_t kernel, int dynamic_smem_bytes) {
  cudaFuncAttributes attributes = {};
  int registers = 0;
  int smem = 0;
  check(cudaFuncGetAttributes(&attributes, serving_entry(kernel)), "attributes");
  check(cudaDeviceGetAttribute(&registers, cudaDevAttrMaxRegistersPerBlock, 0), "registers");
  check(cudaDeviceGetAttribute(&smem, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0), "memory");
  const int threads = kCheckedKernels[kernel].threads();
  return std::string(kCheckedKernels[kernel].name) + ", " + std::to_string(threads) +
         " threads, at most " + std::to_string(attributes.maxThreadsPerBlock) + ", of " +
         std::to_string(attributes.numRegs) + " registers, in all " + std::to_string(registers) +
         "; shared memory " + std::to_string(dynamic_smem_bytes) + ", allowed " +
         std::to_string(attributes.maxDynamicSharedSizeBytes) + ", at most " + std::to_string(smem);
}

/// The limit of a kernel's shared memory belongs to the kernel, not to a launch: were it lowered
/// for a shorter list of sequences, a launch of another host thread would be refused. So it only
/// rises.
const void* allowed_entry(std::size_t kernel, int dynamic_smem_bytes) {
  static std::mutex guard;
  static std::array<int, kCheckedCount> allowed = {};
  const std::lock_guard lock(guard);
  const void* const entry = serving_entry(kernel);
  if (allowed[kernel] < dynamic_smem_bytes) {
    check(cudaFuncSetAttribute(entry, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               dynamic_smem_bytes),
          "shared memory of " + resources(kernel, dynamic_smem_bytes));
    allowed[kernel] = dynamic_smem_bytes;
  }
  return entry;
}

/// The driver's function, without linking the driver.
LaunchCalls encoding_calls() {
  LaunchCalls calls;
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                         cudaEnableDefault, &found),
        "cuTensorMapEncodeTiled");
  calls.tensor_map_encode_tiled =
      reinterpret_cast<decltype(calls.tensor_map_encode_tiled)>(function);
  return calls;
}

ServingMaps maps_of(std::size_t kernel, const ServingAttentionParams& params) {
  static const LaunchCalls calls = encoding_calls();
  const HopperServingConfig config = kCheckedKernels[kernel].hopper();
  ServingMaps maps;
  const CUresult result =
      encode_serving_maps(calls,
                          {.q_box = config.q_box(),
                           .kv_box = config.kv_box(),
                           .kv_panels = config.has_whole_boxes() ? config.dense().panels() : 0,
                           .head_dim = config.head_dim,
                           .dtype = config.dtype},
                          params, maps);
  if (result != CUDA_SUCCESS) {
    end_section("a tensor map was refused: " + std::to_string(result));
  }
  return maps;
}

void launch_on(cudaStream_t stream, std::size_t kernel, const ServingLaunch& launch,
               const ServingAttentionParams& params, bool may_begin_early) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(launch.grid_x));
  const CheckedKernel& checked = kCheckedKernels[kernel];
  const int smem_bytes = checked.smem_bytes(launch.dynamic_smem_bytes);
  config.blockDim = dim3(static_cast<unsigned>(checked.threads()));
  config.dynamicSmemBytes = static_cast<std::size_t>(smem_bytes);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = may_begin_early ? 1 : 0;
  ServingAttentionParams copy = params;
  ServingMaps maps{};
  if (checked.is_hopper()) {
    maps = maps_of(kernel, params);
  }
  void* arguments[] = {&copy, &maps.q, &maps.k, &maps.v, &maps.o, &maps.steps};
  const cudaError_t error =
      cudaLaunchKernelExC(&config, allowed_entry(kernel, smem_bytes), arguments);
  if (error != cudaSuccess) {
    check(error, "launch of " + resources(kernel, smem_bytes));
  }
}

}  // namespace

void* allocate(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes == 0 ? 1 : bytes), "cudaMalloc");
  return memory;
}
void release(void* memory) { check(cudaFree(memory), "cudaFree"); }
void fill(void* memory, int byte, std::size_t bytes) {
  check(cudaMemsetAsync(memory, byte, bytes, kStream), "cudaMemset");
}
void upload(void* memory, const void* from, std::size_t bytes) {
  check(cudaMemcpyAsync(memory, from, bytes, cudaMemcpyHostToDevice, kStream), "cudaMemcpy");
}
void download(void* to, const void* memory, std::size_t bytes) {
  check(cudaMemcpyAsync(to, memory, bytes, cudaMemcpyDeviceToHost, kStream), "cudaMemcpy");
  wait();
}
std::size_t free_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return free;
}
int sm_count() {
  int sms = 0;
  check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0), "SMs");
  return sms;
}
void wait() { check(cudaStreamSynchronize(kStream), "kernel"); }

void launch_serving(std::size_t kernel, const ServingLaunch& launch,
                    const ServingAttentionParams& params, bool may_begin_early) {
  launch_on(kStream, kernel, launch, params, may_begin_early);
}

void launch_serving_early(std::size_t kernel, const ServingLaunch& launch,
                          const ServingAttentionParams& params,
                          const std::vector<LateArray>& late) {
  const std::size_t bytes = late.size() * sizeof(LateArray);
  auto* const list = static_cast<LateArray*>(allocate(bytes));
  upload(list, late.data(), bytes);
  write_late<<<1, 1024, 0, kStream>>>(list, static_cast<int>(late.size()));
  check(cudaGetLastError(), "late writes");
  launch_on(kStream, kernel, launch, params, true);
  wait();
  release(list);
}

CapturedServing::CapturedServing(std::size_t kernel, const ServingLaunch& launch,
                                 const ServingAttentionParams& params) {
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  check(cudaStreamCreate(&stream), "stream");
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  launch_on(stream, kernel, launch, params, false);
  check(cudaStreamEndCapture(stream, &graph), "capture");
  check(cudaGraphInstantiate(&executable, graph, 0), "graph");
  check(cudaGraphDestroy(graph), "graph");
  check(cudaStreamDestroy(stream), "stream");
  executable_ = executable;
}
CapturedServing::~CapturedServing() {
  cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(executable_));
}
void CapturedServing::replay() const {
  check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(executable_), kStream), "replay");
}

int resident_ctas(std::size_t kernel, int dynamic_smem_bytes) {
  const int smem_bytes = kCheckedKernels[kernel].smem_bytes(dynamic_smem_bytes);
  int per_sm = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, allowed_entry(kernel, smem_bytes),
                                                      kCheckedKernels[kernel].threads(),
                                                      static_cast<std::size_t>(smem_bytes)),
        "occupancy");
  return sm_count() * per_sm;
}

void launch_append(DType dtype, const KvAppendParams& params) {
  const auto ctas = static_cast<unsigned>(append_ctas(params, sm_count()));
  if (dtype == DType::bf16) {
    swr_append_kv_bf16<<<ctas, serving::kAppendThreads, 0, kStream>>>(params);
  } else {
    swr_append_kv_fp16<<<ctas, serving::kAppendThreads, 0, kStream>>>(params);
  }
  check(cudaGetLastError(), "append");
}

}  // namespace swr::gpu
